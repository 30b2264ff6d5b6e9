/* Memory that grows in place or by moving its pages, for results of unknown size. */
#ifndef HEDDLE_MEMORY_H
#define HEDDLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* From this size on memory is the system's own pages, moved by mremap instead of copied. */
#define HEDDLE_MAPPED ((size_t)1 << 20)

struct heddle_memory {
    unsigned char *at;
    size_t size;
};

/* Of at least so many bytes; NULL if there are not so many. */
struct heddle_memory *heddle_memory_new(size_t size);

/* At least so many bytes, of which the contents are kept as far as both sizes go; 0, or -1 if there
   are not so many, when nothing has changed. */
int heddle_memory_resize(struct heddle_memory *memory, size_t size);

/* Gives back what lies behind so many bytes, as far as that needs no copy. */
void heddle_memory_trim(struct heddle_memory *memory, size_t used);

void heddle_memory_free(struct heddle_memory *memory);

/* The bytes of all memories, and the number of them. */
int64_t heddle_memory_held(void);
int64_t heddle_memory_count(void);

/* The collector does not see this memory: has so much been made that it should run? 0, 1 for the
   youngest generation, 2 for all. */
int heddle_memory_due(void);

/* All generations have been collected. */
void heddle_memory_collected(void);

#endif
