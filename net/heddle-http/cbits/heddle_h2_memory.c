/* Memory for libnghttp2, which allocates about ten small blocks for each stream and frees them when the stream ends.
 *
 * Blocks that are given back wait in the session's pool, by size, for the next stream. The streams of a connection come and
 * go in bursts, which overflow the caches of malloc; here each block costs a few instructions. A session that has had no
 * stream for a while empties its pool (heddle_h2_rest), so idle connections hold nothing for it.
 *
 * What is made with a session is large, and of little use while it idles: libnghttp2's memory for frames (16 KB), and
 * records of 10 KB, most of them zeros then: its table of streams, the session itself, the rings of both header
 * tables, and our core. They lie in pages of the session's own. While it idles, the pages are given back to the
 * system, and the words of the records that are not zero wait in one block; they come back to the same addresses. The
 * pages come from slabs, so that the small blocks of sessions lie closely together; a slab stays, but pages that
 * nobody has touched cost nothing.
 */
#include "heddle_h2.h"
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

enum { PAGE = 4096, FRAMES = 5 * PAGE, RECORDS = 3 * PAGE, REGION = FRAMES + RECORDS, SLAB = 64 };

static atomic_int regions_lock;
static uint8_t **regions; /* that are free; there is room for all */
static size_t regions_free, regions_room;

static void lock_regions(void) {
  while (atomic_exchange_explicit(&regions_lock, 1, memory_order_acquire)) sched_yield();
}

static void unlock_regions(void) { atomic_store_explicit(&regions_lock, 0, memory_order_release); }

static uint8_t *take_region(void) {
  uint8_t *region = NULL;
  lock_regions();
  if (!regions_free) {
    uint8_t **more = realloc(regions, (regions_room + SLAB) * sizeof *regions);
    if (more) {
      regions = more;
      uint8_t *slab = mmap(NULL, (size_t)REGION * SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (slab != MAP_FAILED) {
        /* Huge pages would make untouched ones cost. */
        madvise(slab, (size_t)REGION * SLAB, MADV_NOHUGEPAGE);
        regions_room += SLAB;
        for (size_t i = SLAB; i > 0; i--) regions[regions_free++] = slab + (i - 1) * REGION;
      }
    }
  }
  if (regions_free) region = regions[--regions_free];
  unlock_regions();
  return region;
}

static void give_region(uint8_t *region) {
  madvise(region, REGION, MADV_DONTNEED);
  lock_regions();
  regions[regions_free++] = region;
  unlock_regions();
}

struct free_block {
  struct free_block *next;
};

/* Blocks have the sizes of malloc's, whose own word before each of them tells the size: 24, 40, 56 and so on up to 248,
 * which is where the entries of header tables lie, of which an idle session keeps some dozens, and 536. Larger ones are
 * not kept. */
enum { LEAST_BLOCK = 24, STEP = 16, SMALL_CLASSES = POOL_CLASSES - 1 };
enum { MOST_SMALL = LEAST_BLOCK + STEP * (SMALL_CLASSES - 1), MOST_KEPT = 536 };

static size_t size_of(size_t class) { return class < SMALL_CLASSES ? LEAST_BLOCK + STEP * class : MOST_KEPT; }

/* The class of blocks in which there is room for so much, or POOL_CLASSES. */
static size_t class_for(size_t size) {
  if (size <= LEAST_BLOCK) return 0;
  if (size <= MOST_SMALL) return (size - LEAST_BLOCK + STEP - 1) / STEP;
  return size <= MOST_KEPT ? SMALL_CLASSES : POOL_CLASSES;
}

/* The class that a block with this room belongs to: malloc may have given more than was asked. */
static size_t class_with(size_t room) {
  if (room >= 2 * MOST_KEPT || room < LEAST_BLOCK) return POOL_CLASSES;
  if (room >= MOST_KEPT) return SMALL_CLASSES;
  return room >= MOST_SMALL ? SMALL_CLASSES - 1 : (room - LEAST_BLOCK) / STEP;
}

/* Records are blocks of this size or larger that are made with the session; smaller ones may go before it does. */
enum { LEAST_RECORD = 512 };

/* Before every record; 16 bytes, so that it keeps malloc's alignment. */
struct record_head {
  size_t size, unused;
};

static void *new_record(struct pool *pool, size_t size) {
  size_t whole = sizeof(struct record_head) + (size + 15) / 16 * 16;
  if (whole > RECORDS - pool->records_used) return NULL;
  struct record_head *head = (struct record_head *)(pool->region + FRAMES + pool->records_used);
  pool->records_used += whole;
  head->size = size;
  return head + 1;
}

/* Room in the session's pages, or NULL. */
static void *from_region(struct pool *pool, size_t size) {
  if (size > FRAMES - PAGE && size <= FRAMES && !pool->frames_used) {
    pool->frames_used = 1;
    return pool->region;
  }
  return size >= LEAST_RECORD && size <= RECORDS ? new_record(pool, size) : NULL;
}

static int in_region(const struct pool *pool, const void *block) {
  return (const uint8_t *)block >= pool->region && (const uint8_t *)block < pool->region + REGION;
}

/* How large a block is. */
static size_t room_in(const struct pool *pool, void *block) {
  if (!in_region(pool, block)) return malloc_usable_size(block);
  return block == pool->region ? FRAMES : ((struct record_head *)block - 1)->size;
}

static void *allocate(size_t size, void *user) {
  struct pool *pool = user;
  if (pool->opening) {
    void *block = from_region(pool, size);
    if (block) return block;
  }
  size_t class = class_for(size);
  if (class == POOL_CLASSES) return malloc(size);
  struct free_block *block = pool->free[class];
  if (!block) return malloc(size_of(class));
  pool->free[class] = block->next;
  return block;
}

static void give_back(void *block, void *user) {
  struct pool *pool = user;
  if (!block) return;
  if (in_region(pool, block)) {
    /* A record's room is not used again. */
    if (block == pool->region) pool->frames_used = 0;
    return;
  }
  size_t class = class_with(malloc_usable_size(block));
  if (class == POOL_CLASSES) {
    free(block);
    return;
  }
  struct free_block *freed = block;
  freed->next = pool->free[class];
  pool->free[class] = freed;
}

static void *allocate_zeroed(size_t count, size_t size, void *user) {
  if (size > 0 && count > SIZE_MAX / size) return NULL;
  void *block = allocate(count * size, user);
  return block ? memset(block, 0, count * size) : NULL;
}

static void *reallocate(void *block, size_t size, void *user) {
  struct pool *pool = user;
  if (!block) return allocate(size, user);
  size_t room = room_in(pool, block);
  if (size <= room) return block;
  void *larger = allocate(size, user);
  if (!larger) return NULL;
  memcpy(larger, block, room);
  give_back(block, user);
  return larger;
}

nghttp2_mem heddle_h2_memory(struct pool *pool) { return (nghttp2_mem){pool, allocate, give_back, allocate_zeroed, reallocate}; }

void heddle_h2_empty_pool(struct pool *pool) {
  for (size_t class = 0; class < POOL_CLASSES; class++)
    while (pool->free[class]) {
      struct free_block *block = pool->free[class];
      pool->free[class] = block->next;
      free(block);
    }
}

struct core *heddle_h2_new_core(void) {
  struct pool pool = {.region = take_region()};
  if (!pool.region) return NULL;
  struct core *core = new_record(&pool, sizeof *core);
  /* The pages may have been used: where memory is locked, the system takes none back. */
  memset(core, 0, sizeof *core);
  core->pool = pool;
  return core;
}

void heddle_h2_free_core(struct core *core) { give_region(core->pool.region); }

/* Resting ------------------------------------------------------------------------ */

/* A record's words that are not zero, by groups of 64: a word says which groups there are, and before each of them stands a word
 * that says which of its words there are. */
enum { GROUP = 64, GROUPS = RECORDS / 8 / GROUP, MOST_RESTING = 1 + GROUPS * (1 + GROUP) };

uint64_t *heddle_h2_rest_pages(struct core *core) {
  uint8_t *region = core->pool.region;
  const uint64_t *words = (const uint64_t *)(region + FRAMES);
  uint64_t packed[MOST_RESTING];
  size_t count = 1, used = (core->pool.records_used + 8 * GROUP - 1) / (8 * GROUP);
  packed[0] = 0;
  for (size_t i = 0; i < used; i++, words += GROUP) {
    uint64_t mask = 0;
    size_t at = count + 1;
    for (size_t k = 0; k < GROUP; k++) {
      packed[at] = words[k];
      at += words[k] != 0;
      mask |= (uint64_t)(words[k] != 0) << k;
    }
    if (!mask) continue;
    packed[0] |= (uint64_t)1 << i;
    packed[count] = mask;
    count = at;
  }
  uint64_t *resting = malloc(count * sizeof *resting);
  if (!resting) return NULL;
  memcpy(resting, packed, count * sizeof *resting);
  madvise(region, REGION, MADV_DONTNEED);
  return resting;
}

void heddle_h2_wake_pages(struct core *core, uint64_t *resting) {
  /* Nothing of the core is there; it is the first record. */
  uint64_t *words = (uint64_t *)((struct record_head *)core - 1);
  const uint64_t *from = resting + 1;
  for (uint64_t groups = resting[0]; groups; groups &= groups - 1) {
    uint64_t *group = words + (size_t)__builtin_ctzll(groups) * GROUP;
    for (uint64_t mask = *from++; mask; mask &= mask - 1) group[__builtin_ctzll(mask)] = *from++;
  }
  free(resting);
}
