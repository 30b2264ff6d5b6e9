/* Memory that grows in place or by moving its pages, for results of unknown size. */
#ifndef HEDDLE_MEMORY_H
#define HEDDLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* From this size on, memory consists of whole pages of the system, which mremap moves instead of copying. */
#define HEDDLE_MAPPED ((size_t)1 << 20)

struct heddle_memory {
    unsigned char *at;
    size_t size;
};

/* Allocates at least this many bytes; NULL if memory is short. */
struct heddle_memory *heddle_memory_new(size_t size);

/* Resizes to at least this many bytes and keeps the contents; 0, or -1 if memory is short, when nothing
   has changed. */
int heddle_memory_resize(struct heddle_memory *memory, size_t size);

/* Releases the memory after this many bytes, as far as that needs no copy. */
void heddle_memory_trim(struct heddle_memory *memory, size_t used);

void heddle_memory_free(struct heddle_memory *memory);

/* The bytes in all of these blocks, and their number. */
int64_t heddle_memory_held(void);
int64_t heddle_memory_count(void);

/* The collector does not see this memory. Has enough been allocated that it should run? 0: no; 1: the
   youngest generation; 2: all generations. */
int heddle_memory_due(void);

/* All generations have been collected. */
void heddle_memory_collected(void);

#endif
