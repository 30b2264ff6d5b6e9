/*
 * Memory between two inaccessible pages.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first of this many pages, 4096 bytes each; a null pointer if memory is short. */
uint8_t *guarded_new(int64_t pages)
{
    const int64_t page = 4096;
    int64_t size = (pages + 2) * page;
    if (sysconf(_SC_PAGESIZE) != page) return 0;
    uint8_t *p = mmap(0, (size_t)size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 0;
    if (mprotect(p + page, (size_t)(pages * page), PROT_READ | PROT_WRITE)) return 0;
    return p + page;
}
