/* Handles: an index and a generation for every object of MPI that Haskell holds. See heddle_mpi_core.h.
 *
 * Entries lie in segments that never move, so finding one takes no lock: an entry is valid for a handle if it
 * carries exactly that handle. They stay until the process ends, since a late thread may still look. Making and
 * closing take the lock.
 *
 * Any thread may close an object while others use it. So each call holds the entries of its objects: it counts itself in
 * `users`, then looks whether the handle is current. Closing clears the handle, then waits until nobody is counted. Both
 * orders are sequentially consistent, so a call that found the handle current is seen by the closer, and none reaches the
 * implementation with an object that was freed. The fixed objects are never closed and not counted; for others a call costs
 * two atomic additions. */
#include <pthread.h>
#include <stdlib.h>
#include "heddle_mpi_core.h"

enum { INDEX_BITS = 24, SEGMENT_BITS = 10, SEGMENT = 1 << SEGMENT_BITS, SEGMENTS = 1 << (INDEX_BITS - SEGMENT_BITS) };

struct entry {
  _Atomic handle current; /* 0 while it is free or being closed */
  _Atomic int32_t users;  /* calls that hold it */
  handle last;            /* what it carried before */
  native object;
  handle within;          /* the communicator of a persistent request */
  int32_t kind;
  int32_t next_free; /* 0 is the end: index 0 is never used */
};

static struct entry *_Atomic segments[SEGMENTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unused = PTHREAD_COND_INITIALIZER;
static int32_t used, first_free;
static int32_t open_of[HANDLE_KINDS];

static struct entry *entry_at(int64_t index)
{
  struct entry *segment = atomic_load_explicit(&segments[index >> SEGMENT_BITS], memory_order_acquire);
  return segment ? &segment[index & (SEGMENT - 1)] : 0;
}

static struct entry *entry_of(handle h)
{
  return entry_at(h & (SEGMENTS * SEGMENT - 1));
}

static struct entry *fresh_entry(int32_t *index)
{
  if (first_free) {
    *index = first_free;
    struct entry *entry = entry_at(*index);
    first_free = entry->next_free;
    return entry;
  }
  if (used >= SEGMENTS * SEGMENT) return 0;
  *index = used;
  if (!entry_at(*index)) {
    struct entry *segment = calloc(SEGMENT, sizeof *segment);
    if (!segment) return 0;
    atomic_store_explicit(&segments[*index >> SEGMENT_BITS], segment, memory_order_release);
  }
  used++;
  return entry_at(*index);
}

static void occupy(struct entry *entry, handle h, int kind, native object, handle within)
{
  entry->within = within;
  entry->object = object;
  entry->kind = kind;
  entry->last = h;
  atomic_store_explicit(&entry->current, h, memory_order_release);
}

handle heddle_mpi_handle_new(int kind, native object, handle within)
{
  pthread_mutex_lock(&lock);
  int32_t index;
  struct entry *entry = fresh_entry(&index);
  handle h = NO_MEMORY;
  if (entry) {
    int64_t generation = (entry->last >> INDEX_BITS) + 1;
    h = generation << INDEX_BITS | index;
    occupy(entry, h, kind, object, within);
    open_of[kind]++;
  }
  pthread_mutex_unlock(&lock);
  return h;
}

int heddle_mpi_handle_find(handle h, int kind, native *object)
{
  if (h <= 0) return CLOSED;
  struct entry *entry = entry_of(h);
  if (!entry || atomic_load_explicit(&entry->current, memory_order_acquire) != h || entry->kind != kind) return CLOSED;
  *object = entry->object;
  return 0;
}

int heddle_mpi_handle_hold(handle h, int kind, native *object)
{
  int code = heddle_mpi_handle_find(h, kind, object);
  if (code || !(h >> INDEX_BITS)) return code;
  struct entry *entry = entry_of(h);
  atomic_fetch_add(&entry->users, 1);
  if (atomic_load(&entry->current) == h) return 0;
  heddle_mpi_handle_release(h);
  return CLOSED;
}

void heddle_mpi_handle_release(handle h)
{
  if (!(h >> INDEX_BITS)) return;
  struct entry *entry = entry_of(h);
  if (atomic_fetch_sub(&entry->users, 1) != 1 || atomic_load(&entry->current)) return;
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&unused);
  pthread_mutex_unlock(&lock);
}

handle heddle_mpi_handle_within(handle h)
{
  return entry_of(h)->within;
}

int heddle_mpi_handle_take(handle h, int kind, native *object)
{
  pthread_mutex_lock(&lock);
  int code = h >> INDEX_BITS ? heddle_mpi_handle_find(h, kind, object) : CLOSED; /* the fixed ones stay */
  if (!code) {
    int32_t index = h & (SEGMENTS * SEGMENT - 1);
    struct entry *entry = entry_at(index);
    atomic_store(&entry->current, 0);
    while (atomic_load(&entry->users)) pthread_cond_wait(&unused, &lock);
    entry->next_free = first_free;
    first_free = index;
    open_of[kind]--;
  }
  pthread_mutex_unlock(&lock);
  return code;
}

int heddle_mpi_handles_open(int kind)
{
  pthread_mutex_lock(&lock);
  int count = open_of[kind];
  pthread_mutex_unlock(&lock);
  return count;
}

static void fix(handle h, int kind, native object)
{
  if (object) occupy(entry_at(h), h, kind, object, 0);
}

int heddle_mpi_handles_begin(void)
{
  struct entry *segment = calloc(SEGMENT, sizeof *segment);
  if (!segment) return NO_MEMORY;
  atomic_store_explicit(&segments[0], segment, memory_order_release);
  fix(H_WORLD, H_COMM, heddle_mpi_calls->world);
  fix(H_SELF, H_COMM, heddle_mpi_calls->self);
  for (int i = 0; i < ELEMENTS; i++) fix(H_ELEMENTS + i, H_TYPE, heddle_mpi_calls->element[i]);
  used = H_ELEMENTS + ELEMENTS;
  return 0;
}
