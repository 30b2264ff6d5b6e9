/* Memory for libnghttp2, which allocates about ten small blocks for each stream and frees them when the stream ends.
 *
 * Blocks that are given back wait in the session's pool, by size, for the next stream. The streams of a connection come and
 * go in bursts, which overflow the caches of malloc; here each block costs a few instructions. A session that has had no
 * stream for a while empties its pool (heddle_h2_check), so idle connections hold nothing for it.
 *
 * Two blocks of a session are large, and of no use while it idles: that in which libnghttp2 packs frames (16 KB), and its table
 * of streams (4 KB, all zeros then). They lie in pages of their own, which an idle session gives back to the system. The pages
 * come from slabs, so that the small blocks of sessions lie closely together; a slab stays, but pages that nobody has
 * touched cost nothing.
 */
#include "heddle_h2.h"
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

enum { PAGE = 4096, FRAMES = 5 * PAGE, STREAMS = PAGE, REGION = FRAMES + STREAMS, SLAB = 64 };

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

/* Blocks have the sizes of malloc's, whose own word before each of them tells the size: 24, 56, 88 and so on up to 248, which is where
 * the entries of header tables lie, of which an idle session keeps some dozens, and 536. Larger ones are not kept. */
enum { LEAST_BLOCK = 24, STEP = 32, SMALL_CLASSES = POOL_CLASSES - 1, MOST_SMALL = LEAST_BLOCK + STEP * (SMALL_CLASSES - 1), MOST_KEPT = 536 };

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

/* The part of the region that is for a block of this size, unless it is in use. Only blocks that are made with the session are
 * looked at: they are libnghttp2's memory for frames and its table of streams. */
static void *from_region(struct pool *pool, size_t size) {
  if (!pool->region && !(pool->region = take_region())) return NULL;
  if (size > FRAMES - PAGE && size <= FRAMES && !pool->frames_used) {
    pool->frames_used = 1;
    return pool->region;
  }
  if (size > STREAMS / 2 && size % 1024 == 0 && size <= STREAMS && !pool->streams_used) {
    pool->streams_used = 1;
    return pool->region + FRAMES;
  }
  return NULL;
}

static int in_region(const struct pool *pool, const void *block) {
  return pool->region && (const uint8_t *)block >= pool->region && (const uint8_t *)block < pool->region + REGION;
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
    *(block == pool->region ? &pool->frames_used : &pool->streams_used) = 0;
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
  size_t room = in_region(pool, block) ? (block == pool->region ? FRAMES : STREAMS) : malloc_usable_size(block);
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

static int all_zeros(const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i]) return 0;
  return 1;
}

void heddle_h2_rest_pages(struct pool *pool) {
  if (!pool->region) return;
  madvise(pool->region, FRAMES, MADV_DONTNEED);
  if (all_zeros(pool->region + FRAMES, STREAMS)) madvise(pool->region + FRAMES, STREAMS, MADV_DONTNEED);
}

void heddle_h2_free_pages(struct pool *pool) {
  if (pool->region) give_region(pool->region);
  pool->region = NULL;
}
