#define _GNU_SOURCE
#include "heddle_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes: in all blocks, allocated since a collection was due, held after the last collection of all generations. */
static int64_t held, made, kept;
static int64_t count;

static int64_t add(int64_t *word, int64_t n)
{
    return __atomic_add_fetch(word, n, __ATOMIC_RELAXED);
}

static size_t rounded(size_t size)
{
    /* realloc to 0 bytes would free. */
    if (size == 0)
        size = 1;
    return size < HEDDLE_MAPPED ? size : (size + 4095) & ~(size_t)4095;
}

static void *mapped(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    /* A hint: with large pages there are fewer page faults. */
    madvise(at, size, MADV_HUGEPAGE);
    return at;
}

static void *allocated(size_t size)
{
    return size < HEDDLE_MAPPED ? malloc(size) : mapped(size);
}

static void released(void *at, size_t size)
{
    if (size < HEDDLE_MAPPED)
        free(at);
    else
        munmap(at, size);
}

struct heddle_memory *heddle_memory_new(size_t size)
{
    struct heddle_memory *memory = malloc(sizeof *memory);
    if (!memory)
        return NULL;
    memory->size = rounded(size);
    memory->at = allocated(memory->size);
    if (!memory->at) {
        free(memory);
        return NULL;
    }
    add(&held, (int64_t)memory->size);
    add(&made, (int64_t)memory->size);
    add(&count, 1);
    return memory;
}

int heddle_memory_resize(struct heddle_memory *memory, size_t wanted)
{
    size_t old = memory->size, size = rounded(wanted);
    void *at;
    if (old < HEDDLE_MAPPED && size < HEDDLE_MAPPED) {
        at = realloc(memory->at, size);
    } else if (old >= HEDDLE_MAPPED && size >= HEDDLE_MAPPED) {
        at = mremap(memory->at, old, size, MREMAP_MAYMOVE);
        if (at == MAP_FAILED)
            at = NULL;
    } else {
        at = allocated(size);
        if (at) {
            memcpy(at, memory->at, old < size ? old : size);
            released(memory->at, old);
        }
    }
    if (!at)
        return -1;
    memory->at = at;
    memory->size = size;
    add(&held, (int64_t)size - (int64_t)old);
    if (size > old)
        add(&made, (int64_t)(size - old));
    return 0;
}

void heddle_memory_trim(struct heddle_memory *memory, size_t used)
{
    if (memory->size >= HEDDLE_MAPPED && used < HEDDLE_MAPPED)
        used = HEDDLE_MAPPED;
    if (used < memory->size)
        (void)heddle_memory_resize(memory, used);
}

void heddle_memory_free(struct heddle_memory *memory)
{
    add(&held, -(int64_t)memory->size);
    add(&count, -1);
    released(memory->at, memory->size);
    free(memory);
}

int64_t heddle_memory_held(void)
{
    return add(&held, 0);
}

int64_t heddle_memory_count(void)
{
    return add(&count, 0);
}

int heddle_memory_due(void)
{
    if (add(&made, 0) < (int64_t)32 << 20)
        return 0;
    __atomic_store_n(&made, 0, __ATOMIC_RELAXED);
    return add(&held, 0) > 2 * add(&kept, 0) + ((int64_t)64 << 20) ? 2 : 1;
}

void heddle_memory_collected(void)
{
    __atomic_store_n(&kept, add(&held, 0), __ATOMIC_RELAXED);
}
