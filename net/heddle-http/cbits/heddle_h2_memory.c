/* Memory for libnghttp2, which allocates about ten small blocks for each stream and frees them when the stream ends.
 *
 * Blocks that are given back wait in the session's pool, by size, for the next stream. The streams of a connection come and
 * go in bursts, which overflow the caches of malloc; here each block costs a few instructions. A session that has had no
 * stream for a while empties its pool (heddle_h2_check), so idle connections hold nothing for it.
 */
#include "heddle_h2.h"

/* Before every block; 16 bytes, so that the block keeps malloc's alignment. */
struct block_head {
  uint64_t class;
  uint64_t size; /* of a block of class POOL_CLASSES, which is malloc's */
};

struct free_block {
  struct free_block *next;
};

static size_t size_of(size_t class) { return (size_t)64 << class; }

static size_t class_of(size_t size) {
  size_t class = 0;
  while (class < POOL_CLASSES && size_of(class) < size) class++;
  return class;
}

static struct block_head *head_of(void *block) { return (struct block_head *)block - 1; }

static void *allocate(size_t size, void *user) {
  struct pool *pool = user;
  size_t class = class_of(size);
  if (class < POOL_CLASSES && pool->free[class]) {
    struct free_block *block = pool->free[class];
    pool->free[class] = block->next;
    return block;
  }
  size_t room = class < POOL_CLASSES ? size_of(class) : size;
  if (room > SIZE_MAX - sizeof(struct block_head)) return NULL;
  struct block_head *head = malloc(sizeof *head + room);
  if (!head) return NULL;
  *head = (struct block_head){class, room};
  return head + 1;
}

static void give_back(void *block, void *user) {
  struct pool *pool = user;
  if (!block) return;
  struct block_head *head = head_of(block);
  if (head->class == POOL_CLASSES) {
    free(head);
    return;
  }
  struct free_block *freed = block;
  freed->next = pool->free[head->class];
  pool->free[head->class] = freed;
}

static void *allocate_zeroed(size_t count, size_t size, void *user) {
  if (size > 0 && count > SIZE_MAX / size) return NULL;
  void *block = allocate(count * size, user);
  return block ? memset(block, 0, count * size) : NULL;
}

static void *reallocate(void *block, size_t size, void *user) {
  if (!block) return allocate(size, user);
  size_t room = head_of(block)->size;
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
      free(head_of(block));
    }
}
