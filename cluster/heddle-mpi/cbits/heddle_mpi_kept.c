/* Messages that had come when their receive was given up: kept here for the next receive that they fit.
 *
 * A message is kept as bytes, which MPI makes of the memory it had been received into, by a send of this process to itself
 * in a communicator that nobody else knows; the same way it comes into the memory of its next receive. So derived types,
 * and messages that end inside of an element, are MPI's matter.
 *
 * Kept messages are older than all that MPI still has, so every receive and probe looks here first: one load where nothing
 * is kept. A receive that waits already is told by the engine; see heddle_mpi_engine_offer. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "heddle_mpi_core.h"

struct kept {
  struct kept *next;
  native comm; /* 0: taken by a matched probe */
  int64_t id;
  heddle_mpi_status status;
  char data[];
};

_Atomic int heddle_mpi_kept;

/* Of all below. The oldest is first. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *oldest, **newest = &oldest;
static int64_t ids;

/* Of the communicator, which is made for the first message. */
static pthread_mutex_t channel_lock = PTHREAD_MUTEX_INITIALIZER;
static native own_comm;
static int32_t tags;

/* What stands for a kept message where a native one is expected, which is an address or an int. */
#define KEPT (1LL << 62)

int heddle_mpi_is_kept(native message)
{
  return message >> 62 == 1;
}

/* Copies ------------------------------------------------------------------------------------------------------------ */

static int channel(native *comm, int *tag)
{
  int code = 0;
  pthread_mutex_lock(&channel_lock);
  if (!own_comm) code = heddle_mpi_calls->comm_dup(heddle_mpi_calls->self, &own_comm);
  *comm = own_comm;
  tags = tags >= heddle_mpi_calls->greatest_tag ? 0 : tags + 1;
  *tag = tags;
  pthread_mutex_unlock(&channel_lock);
  return code;
}

/* Tests until it is complete, which is a matter of this process alone. */
static void finish(native *request, heddle_mpi_status *status)
{
  int done = 0;
  while (!done) {
    int code = heddle_mpi_calls->test(request, &done, status);
    if (code) {
      *status = (heddle_mpi_status){.error = code};
      return;
    }
    if (!done) sched_yield();
  }
}

struct memory {
  void *data;
  int64_t count;
  native type;
};

/* Copies one memory into the other, whatever their types; a failure of the receive is in the status. */
static int copy(struct memory from, struct memory to, heddle_mpi_status *status)
{
  native comm, sent, received;
  int tag;
  heddle_mpi_status ignored;
  int code = channel(&comm, &tag);
  if (!code) code = heddle_mpi_calls->irecv(comm, 0, tag, to.data, to.count, to.type, &received);
  if (code) return code;
  code = heddle_mpi_calls->isend(comm, 0, tag, M_STANDARD, from.data, from.count, from.type, &sent);
  if (code) {
    heddle_mpi_calls->cancel(&received);
    finish(&received, &ignored);
    return code;
  }
  finish(&received, status);
  finish(&sent, &ignored);
  return 0;
}

/* The list, under `lock` ---------------------------------------------------------------------------------------------- */

static int fits(const struct kept *kept, native comm, int source, int tag)
{
  return kept->comm == comm && (source == ANY_SOURCE || source == kept->status.source) &&
         (tag == ANY_TAG || tag == kept->status.tag);
}

static struct kept *take_out(struct kept **place)
{
  struct kept *kept = *place;
  *place = kept->next;
  if (newest == &kept->next) newest = place;
  if (kept->comm) atomic_fetch_sub(&heddle_mpi_kept, 1);
  return kept;
}

static struct kept **find(native comm, int source, int tag)
{
  struct kept **place = &oldest;
  while (*place && !fits(*place, comm, source, tag)) place = &(*place)->next;
  return place;
}

/* What calls ask ------------------------------------------------------------------------------------------------------ */

/* Keeps what was received into this memory, with its status, for the receives of a communicator; with comm 0 for who gets its
 * number. Nothing is kept of an operation whose error was not the message's. */
int heddle_mpi_keep_native(native comm, const heddle_mpi_status *status, void *data, int64_t count, native type, int derived,
                           native *message)
{
  int failed = status->error != 0;
  if (failed && heddle_mpi_error_class(status->error) != C_TRUNCATE) return 0;
  if (status->source == NO_RANK || status->bytes < 0) return 0;
  int64_t bytes = failed ? 0 : status->bytes, room = bytes;
  struct memory from = {data, bytes, heddle_mpi_calls->element[E_BYTE]};
  if (derived && bytes) {
    int64_t each, lower, extent;
    int code = heddle_mpi_calls->type_measure(type, &each, &lower, &extent);
    if (code) return code;
    int64_t whole = (bytes + each - 1) / each; /* the last may have come in part */
    from = (struct memory){data, whole < count ? whole : count, type};
    room = from.count * each;
  }
  struct kept *kept = malloc(sizeof *kept + (size_t)room);
  if (!kept) return NO_MEMORY;
  *kept = (struct kept){.comm = comm, .status = *status};
  if (bytes) {
    heddle_mpi_status copied;
    int code = copy(from, (struct memory){kept->data, room, heddle_mpi_calls->element[E_BYTE]}, &copied);
    if (!code) code = copied.error;
    if (code) {
      free(kept);
      return code;
    }
  }
  pthread_mutex_lock(&lock);
  kept->id = ids++;
  if (message) *message = KEPT | kept->id;
  *newest = kept;
  newest = &kept->next;
  if (comm) atomic_fetch_add(&heddle_mpi_kept, 1);
  pthread_mutex_unlock(&lock);
  if (comm) heddle_mpi_engine_offer();
  return 0;
}

static void deliver(struct kept *kept, void *data, int64_t count, native type, struct heddle_mpi_outcome *outcome)
{
  heddle_mpi_status status = kept->status, copied = {0};
  if (!status.error && status.bytes) {
    struct memory from = {kept->data, status.bytes, heddle_mpi_calls->element[E_BYTE]};
    int code = copy(from, (struct memory){data, count, type}, &copied);
    status.error = code ? code : copied.error;
    if (!code) status.bytes = copied.bytes;
  }
  *outcome = (struct heddle_mpi_outcome){.status = status};
  free(kept);
}

/* Receives the oldest that fits: 1 and the outcome, or 0. */
int heddle_mpi_kept_receive(native comm, int source, int tag, void *data, int64_t count, native type,
                            struct heddle_mpi_outcome *outcome)
{
  pthread_mutex_lock(&lock);
  struct kept **place = find(comm, source, tag);
  struct kept *kept = *place ? take_out(place) : 0;
  pthread_mutex_unlock(&lock);
  if (kept) deliver(kept, data, count, type, outcome);
  return kept != 0;
}

/* Finds the oldest that fits: 1 and the outcome, or 0. With `reserve` it is then the prober's. */
int heddle_mpi_kept_probe(native comm, int source, int tag, int reserve, struct heddle_mpi_outcome *outcome)
{
  pthread_mutex_lock(&lock);
  struct kept *kept = *find(comm, source, tag);
  if (kept) {
    *outcome = (struct heddle_mpi_outcome){.status = kept->status, .message = reserve ? KEPT | kept->id : 0};
    outcome->status.error = 0; /* its receive fails */
    if (reserve) {
      kept->comm = 0;
      atomic_fetch_sub(&heddle_mpi_kept, 1);
    }
  }
  pthread_mutex_unlock(&lock);
  return kept != 0;
}

/* Receives one that was reserved. */
int heddle_mpi_kept_receive_reserved(native message, void *data, int64_t count, native type, struct heddle_mpi_outcome *outcome)
{
  pthread_mutex_lock(&lock);
  struct kept **place = &oldest;
  while (*place && (*place)->id != (message & ~KEPT)) place = &(*place)->next;
  struct kept *kept = *place ? take_out(place) : 0;
  pthread_mutex_unlock(&lock);
  if (!kept) return CLOSED;
  deliver(kept, data, count, type, outcome);
  return 0;
}

/* Offers each, the oldest first: `wanted` finds somebody who waits for it. */
void heddle_mpi_kept_offer(void (*wanted)(native comm, int source, int tag))
{
  pthread_mutex_lock(&lock);
  for (struct kept *kept = oldest; kept; kept = kept->next)
    if (kept->comm) wanted(kept->comm, kept->status.source, kept->status.tag);
  pthread_mutex_unlock(&lock);
}

/* The communicator is closed. */
void heddle_mpi_kept_forget(native comm)
{
  pthread_mutex_lock(&lock);
  for (struct kept **place = &oldest; *place;)
    if ((*place)->comm == comm) free(take_out(place));
    else place = &(*place)->next;
  pthread_mutex_unlock(&lock);
}

/* Before MPI is finalised. */
void heddle_mpi_kept_end(void)
{
  pthread_mutex_lock(&lock);
  while (oldest) free(take_out(&oldest));
  if (own_comm) heddle_mpi_calls->comm_free(&own_comm);
  pthread_mutex_unlock(&lock);
}
