/* Operations that have been started, their waiters, and the thread that tests for those who are parked.
 * See heddle_mpi_core.h.
 *
 * MPI has no descriptor that could be waited for: somebody has to test. In the order of what it costs others:
 * 1. the call that starts an operation tests for its budget (microseconds, the capability held);
 * 2. heddle_mpi_wait tests, the capability given up, for the budget of the settings; one thread at a time does,
 *    since it holds a thread of the system;
 * 3. then the Haskell thread parks, and the engine tests for all that are parked, with naps that grow while nothing
 *    happens, and but for large messages are never shorter than what keeps the engine at a small share of a core. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "heddle_cpu.h"
#include "heddle_mpi_core.h"

enum { INDEX_BITS = 24, SMALLEST = 256 };
enum slot_state { FREE, PENDING, COMPLETE };
/* How the engine naps: not at all, as long as nobody is parked, and as long as nothing is pending. */
enum nap { AWAKE, SHORT, LONG, ENDLESS };

struct operation {
  int64_t generation;
  struct heddle_mpi_started started;
  struct heddle_mpi_outcome outcome;
  int64_t order; /* of the start: what began earlier has the smaller one */
  int32_t next;  /* free, or new, after this one */
  int8_t state, joined, registered, watched, seen, cancelling, closing, returning;
};

/* Two locks. Under `testing`, which is kept while MPI tests: the requests that are tested. Under `table`, which is kept
 * for a moment, and may be taken under the other: all else. */
static pthread_mutex_t testing = PTHREAD_MUTEX_INITIALIZER, table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news; /* the engine has something new to look at */

/* One array, as test_some wants it; no_request where there is none to test. */
static native *requests;
static int *indices;
static heddle_mpi_status *statuses;
static int32_t tested_capacity;

static struct operation *operations;
static int32_t capacity, used, first_free = -1;
static int32_t first_new = -1; /* not yet among the requests */
static int64_t first_generation; /* of new entries: above those of all entries that the table once had */
static int32_t pending, probes, watched, unclaimed;
static int stopping, napping;
static int offering; /* a message was kept, or something has begun that may wait for one */
static int64_t orders;

static _Atomic int bulky;    /* outstanding operations above BULK */
static _Atomic int spinners; /* threads in step 2 */
static _Atomic int64_t spin_budget = 1000000, longest_nap = 1000000;
static _Atomic int yielding;

static int64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void relax(void)
{
#if HEDDLE_X86_KERNELS
  __builtin_ia32_pause();
#endif
  if (atomic_load_explicit(&yielding, memory_order_relaxed)) sched_yield();
}

/* Nanoseconds of spinning without a capability, and of the longest nap; whether other processes want the core. */
void heddle_mpi_configure(int64_t spin, int64_t nap, int yields)
{
  atomic_store(&spin_budget, spin);
  atomic_store(&longest_nap, nap < 50000 ? 50000 : nap);
  atomic_store(&yielding, yields);
}

/* Slots, under `table` ----------------------------------------------------------------------------------------- */

static int more_operations(void)
{
  int32_t larger = capacity ? 2 * capacity : SMALLEST;
  struct operation *p = larger > 1 << INDEX_BITS ? 0 : realloc(operations, larger * sizeof *operations);
  if (!p) return NO_MEMORY;
  operations = p;
  memset(operations + capacity, 0, (larger - capacity) * sizeof *operations);
  for (int32_t i = capacity; i < larger; i++) operations[i].generation = first_generation;
  capacity = larger;
  return 0;
}

static struct operation *operation_of(slot s, int32_t *index)
{
  if (s <= 0) return 0;
  *index = (s - 1) & ((1 << INDEX_BITS) - 1);
  if (*index >= used) return 0;
  struct operation *operation = &operations[*index];
  return operation->state != FREE && operation->generation == (s - 1) >> INDEX_BITS ? operation : 0;
}

static slot occupy(const struct heddle_mpi_started *started)
{
  int32_t index = first_free;
  if (index >= 0) {
    first_free = operations[index].next;
  } else {
    if (used == capacity && more_operations()) return NO_MEMORY;
    index = used++;
  }
  struct operation *operation = &operations[index];
  int64_t generation = operation->generation;
  *operation = (struct operation){.generation = generation, .started = *started, .order = orders++, .next = first_new, .state = PENDING};
  if (heddle_mpi_any_kept()) offering = 1;
  first_new = index;
  pending++;
  if (started->probe) probes++;
  if (started->bytes > BULK) atomic_fetch_add(&bulky, 1);
  return (generation << INDEX_BITS | index) + 1; /* never 0 */
}

static void completed(int32_t index)
{
  struct operation *operation = &operations[index];
  operation->state = COMPLETE;
  pending--;
  if (operation->started.probe) probes--;
  if (operation->watched) watched--;
  if (operation->started.bytes > BULK) atomic_fetch_sub(&bulky, 1);
  unclaimed++;
}

static void claim(int32_t index, struct heddle_mpi_outcome *outcome)
{
  struct operation *operation = &operations[index];
  *outcome = operation->outcome;
  unclaimed--;
  operation->state = FREE;
  operation->generation++;
  operation->next = first_free;
  first_free = index;
}

/* Testing, under `testing` -------------------------------------------------------------------------------------- */

static int more_requests(void)
{
  int32_t larger = capacity;
  void *p;
  if (!(p = realloc(requests, larger * sizeof *requests))) return NO_MEMORY;
  requests = p;
  if (!(p = realloc(indices, larger * sizeof *indices))) return NO_MEMORY;
  indices = p;
  if (!(p = realloc(statuses, larger * sizeof *statuses))) return NO_MEMORY;
  statuses = p;
  for (int32_t i = tested_capacity; i < larger; i++) requests[i] = heddle_mpi_calls->no_request;
  tested_capacity = larger;
  return 0;
}

/* After a peak, gives memory back: when less than a quarter of the entries is in use, and those are in the lower half. A
 * poll goes through all entries, so it also becomes shorter. */
static void shrink(void)
{
  pthread_mutex_lock(&table);
  if (capacity > SMALLEST && pending + unclaimed < used / 4) {
    int32_t top = used;
    while (top > 0 && operations[top - 1].state == FREE) top--;
    if (top <= used / 2) {
      for (int32_t i = top; i < used; i++)
        if (operations[i].generation >= first_generation) first_generation = operations[i].generation + 1;
      used = top;
      first_free = -1;
      for (int32_t i = top - 1; i >= 0; i--)
        if (operations[i].state == FREE) operations[i].next = first_free, first_free = i;
      int32_t smaller = SMALLEST;
      while (smaller < 2 * top) smaller *= 2;
      void *p;
      /* Places are not cleared when they are taken again from a table that could not be made smaller. */
      for (int32_t i = top; i < capacity; i++) operations[i].generation = first_generation;
      if (smaller < capacity && (p = realloc(operations, smaller * sizeof *operations))) operations = p, capacity = smaller;
      if (smaller < tested_capacity) {
        if ((p = realloc(requests, smaller * sizeof *requests))) requests = p;
        if ((p = realloc(indices, smaller * sizeof *indices))) indices = p;
        if ((p = realloc(statuses, smaller * sizeof *statuses))) statuses = p;
        tested_capacity = smaller;
      }
    }
  }
  pthread_mutex_unlock(&table);
}

/* The number of the table's entries, free ones included. */
int heddle_mpi_engine_capacity(void)
{
  pthread_mutex_lock(&table);
  int32_t n = capacity;
  pthread_mutex_unlock(&table);
  return n;
}

/* New slots join the requests; and how many slots there are. */
static int32_t join(void)
{
  pthread_mutex_lock(&table);
  if (tested_capacity < capacity && more_requests()) {
    pthread_mutex_unlock(&table);
    return 0; /* they stay new until there is memory */
  }
  while (first_new >= 0) {
    struct operation *operation = &operations[first_new];
    requests[first_new] = operation->started.probe ? heddle_mpi_calls->no_request : operation->started.request;
    first_new = operation->next;
    operation->joined = 1;
  }
  int32_t count = used;
  pthread_mutex_unlock(&table);
  return count;
}

/* One test; with a failure of the call itself as the operation's. Whether it was cancelled is known to `complete`: of
 * what nobody has cancelled, MPICH does not say so reliably. */
static int tested(native *request, heddle_mpi_status *status)
{
  int done = 0;
  int code = heddle_mpi_calls->test(request, &done, status);
  if (code) {
    *status = (heddle_mpi_status){.error = code, .lost = 1};
    return 1;
  }
  return done != 0;
}

static int probed(native comm, int source, int tag, struct heddle_mpi_outcome *outcome)
{
  int found = 0;
  int code = heddle_mpi_calls->improbe(comm, source, tag, &found, &outcome->message, &outcome->status);
  outcome->status.error = code;
  return code || found;
}

static int settled(struct heddle_mpi_started *started, struct heddle_mpi_outcome *outcome)
{
  return started->probe ? probed(started->comm, started->source, started->tag, outcome)
                        : tested(&started->request, &outcome->status);
}

/* Under `table`: is a collective pending in a communicator that is closed? */
static int lingers(native comm)
{
  for (int32_t i = 0; i < used; i++)
    if (operations[i].state == PENDING && operations[i].started.detached && operations[i].started.comm == comm) return 1;
  return 0;
}

/* The slot is complete, with this: unless it was completed otherwise meanwhile. */
static void complete(int32_t index, const heddle_mpi_status *status, native message)
{
  requests[index] = heddle_mpi_calls->no_request;
  pthread_mutex_lock(&table);
  struct operation *operation = &operations[index];
  operation->outcome.status = *status;
  if (operation->closing && status->cancelled) operation->outcome.status = (heddle_mpi_status){.error = CLOSED};
  if (!operation->cancelling) operation->outcome.status.cancelled = operation->returning && operation->outcome.status.cancelled ? AGAIN : 0;
  if (operation->returning && !operation->outcome.status.cancelled) offering = 1; /* to others */
  operation->outcome.message = message;
  native closed = operation->started.detached ? operation->started.comm : 0;
  completed(index);
  if (closed && lingers(closed)) closed = 0;
  pthread_mutex_unlock(&table);
  /* Its closer has returned: there is nobody to tell a failure, and what is not freed stays until the end. */
  if (closed) heddle_mpi_calls->comm_free(&closed);
}

/* Is it still pending, and what is it? */
static int pending_at(int32_t index, struct heddle_mpi_started *started)
{
  pthread_mutex_lock(&table);
  struct operation *operation = &operations[index];
  int is = operation->state == PENDING && operation->joined; /* a new one may be here since the last join */
  *started = operation->started;
  pthread_mutex_unlock(&table);
  return is;
}

/* Under `table`: the oldest that waits for such a message will be started again, and no other: of two receives of one thread
 * the first gets it. */
static void want(native comm, int source, int tag)
{
  struct operation *oldest = 0;
  for (int32_t i = 0; i < used; i++) {
    struct operation *operation = &operations[i];
    const struct heddle_mpi_started *started = &operation->started;
    if (operation->state != PENDING || !operation->joined || operation->returning || operation->cancelling || operation->closing ||
        started->comm != comm || started->sends || started->collective || started->file)
      continue;
    if ((started->source == ANY_SOURCE || started->source == source) && (started->tag == ANY_TAG || started->tag == tag) &&
        (!oldest || operation->order < oldest->order))
      oldest = operation;
  }
  if (oldest) oldest->returning = 1;
}

/* Ends what waits for messages that were kept, so that it is started again and finds them. One that MPI has matched meanwhile
 * keeps its own message, and the next that waits is asked. */
static void offer(void)
{
  pthread_mutex_lock(&table);
  int is = offering;
  offering = 0;
  if (is) heddle_mpi_kept_offer(want);
  int32_t count = is ? used : 0;
  pthread_mutex_unlock(&table);
  for (int32_t i = 0; i < count; i++) {
    pthread_mutex_lock(&table);
    struct operation *operation = &operations[i];
    int wanted = operation->state == PENDING && operation->returning;
    int probe = operation->started.probe;
    if (wanted && probe) {
      operation->outcome.status = (heddle_mpi_status){.cancelled = AGAIN};
      completed(i);
    }
    pthread_mutex_unlock(&table);
    heddle_mpi_status status;
    if (wanted && !probe && !heddle_mpi_calls->cancel(&requests[i]) && tested(&requests[i], &status)) complete(i, &status, 0);
  }
}

static void test_slot(slot s)
{
  join();
  offer();
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  int is = operation && operation->state == PENDING && index < tested_capacity;
  struct heddle_mpi_started started = is ? operation->started : (struct heddle_mpi_started){0};
  pthread_mutex_unlock(&table);
  if (!is) return;
  struct heddle_mpi_outcome outcome = {0};
  if (!started.probe) started.request = requests[index];
  if (settled(&started, &outcome)) complete(index, &outcome.status, outcome.message);
  else if (!started.probe) requests[index] = started.request;
}

static int is_anything_there(native comm)
{
  int found = 0;
  heddle_mpi_status status;
  return heddle_mpi_calls->iprobe(comm, ANY_SOURCE, ANY_TAG, &found, &status) || found;
}

static void test_probes(int32_t count)
{
  native silent = 0; /* a communicator in which no message waits */
  struct heddle_mpi_started started;
  for (int32_t i = 0; i < count; i++) {
    if (!pending_at(i, &started) || !started.probe || (silent && started.comm == silent)) continue;
    struct heddle_mpi_outcome outcome = {0};
    if (settled(&started, &outcome)) complete(i, &outcome.status, outcome.message);
    else if (!silent && !is_anything_there(started.comm)) silent = started.comm;
  }
}

/* How many were complete, probes not counted. */
static int test_everything(void)
{
  int32_t count = join();
  offer();
  int done = 0;
  /* If the call itself fails, each operation's waiter meets the error. */
  if (count && !heddle_mpi_calls->test_some(count, requests, &done, indices, statuses))
    for (int i = 0; i < done; i++) complete(indices[i], &statuses[i], 0);
  pthread_mutex_lock(&table);
  int any = probes;
  pthread_mutex_unlock(&table);
  if (any) test_probes(count);
  shrink();
  return done;
}

/* Step 1 ------------------------------------------------------------------------------------------------------- */

slot heddle_mpi_failed(int code, struct heddle_mpi_outcome *outcome)
{
  *outcome = (struct heddle_mpi_outcome){.status = {.error = code}};
  return 0;
}

/* Errors in arguments are found before anything begins. */
slot heddle_mpi_start_failed(int code, struct heddle_mpi_outcome *outcome)
{
  heddle_mpi_failed(code, outcome);
  switch (heddle_mpi_error_class(code)) {
  case C_BUFFER: case C_COUNT: case C_TYPE: case C_TAG: case C_COMM: case C_RANK: case C_REQUEST: case C_ROOT:
  case C_GROUP: case C_OP: case C_TOPOLOGY: case C_DIMS: case C_ARG:
    break;
  default:
    outcome->status.lost = code > 0;
  }
  return 0;
}

slot heddle_mpi_settle(struct heddle_mpi_started *started, int64_t budget, int held, struct heddle_mpi_outcome *outcome)
{
  if (!held || !atomic_load_explicit(&bulky, memory_order_relaxed)) {
    outcome->message = 0;
    outcome->owner = 0;
    /* The clock costs as much as a test: it is looked at after the first dozens, and then seldom. */
    int64_t until = 0;
    for (int tests = 1;; tests++) {
      if (settled(started, outcome)) {
        outcome->status.cancelled = 0; /* nobody could */
        return 0;
      }
      if (budget <= 0) break;
      if (tests % 32 == 0) {
        if (!until) until = now() + budget;
        else if (now() >= until) break;
        relax();
      }
    }
  }
  pthread_mutex_lock(&table);
  slot s = occupy(started);
  pthread_mutex_unlock(&table);
  return s;
}

/* Step 2 ------------------------------------------------------------------------------------------------------- */

/* 1 and the outcome if it is complete, 0 if it is not, -1 if somebody else has taken it. A slot of a later phase is
 * known to waiters before its owner is. */
static int taken(slot s, struct heddle_mpi_outcome *outcome)
{
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  int answer = !operation ? -1 : operation->state == COMPLETE && operation->registered;
  if (answer > 0) claim(index, outcome);
  pthread_mutex_unlock(&table);
  return answer;
}

/* A large message needs about a nanosecond a byte, and somebody who tests meanwhile. */
static int64_t patience(slot s)
{
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  int64_t bytes = operation ? operation->started.bytes : 0;
  pthread_mutex_unlock(&table);
  return bytes < 100000000 ? bytes : 100000000;
}

/* Test a slot for a budget, or with -1 for that of the settings: 1 and the outcome, 0 if it is not complete, -1 if
 * somebody else has taken it. */
int heddle_mpi_wait(slot s, int64_t budget, int held, struct heddle_mpi_outcome *outcome)
{
  if (heddle_mpi_refused()) return -1;
  int spins = budget < 0;
  if (spins) budget = atomic_fetch_add(&spinners, 1) ? 0 : atomic_load_explicit(&spin_budget, memory_order_relaxed);
  int64_t until = now() + budget + (spins && budget ? patience(s) : 0);
  int answer = taken(s, outcome);
  while (!answer) {
    if ((!held || !atomic_load_explicit(&bulky, memory_order_relaxed)) && !pthread_mutex_trylock(&testing)) {
      test_slot(s);
      pthread_mutex_unlock(&testing);
    }
    answer = taken(s, outcome);
    if (!answer && now() >= until) break;
    if (!answer) relax();
  }
  if (spins) atomic_fetch_sub(&spinners, 1);
  return answer;
}

/* The engine --------------------------------------------------------------------------------------------------- */

static void wake(enum nap deeper)
{
  if (napping > (int)deeper) pthread_cond_signal(&news);
}

/* From now on the engine may take it, and gives this pointer with the outcome. */
void heddle_mpi_register(slot s, void *owner)
{
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  if (operation) {
    operation->registered = 1;
    operation->outcome.owner = owner;
    wake(operation->watched ? AWAKE : LONG);
  }
  pthread_mutex_unlock(&table);
}

void heddle_mpi_engine_offer(void)
{
  pthread_mutex_lock(&table);
  offering = 1;
  wake(AWAKE);
  pthread_mutex_unlock(&table);
}

/* Somebody is parked until it is complete. */
void heddle_mpi_watch(slot s)
{
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  if (operation && !operation->watched) {
    operation->watched = 1;
    if (operation->state == PENDING) watched++;
    wake(SHORT);
  }
  pthread_mutex_unlock(&table);
}

/* Cancels a receive or a probe that has not matched; its outcome says whether. May wait for a test. */
int heddle_mpi_cancel(slot s)
{
  int code = heddle_mpi_refused();
  if (code) return code;
  pthread_mutex_lock(&testing);
  join();
  pthread_mutex_lock(&table);
  int32_t index;
  struct operation *operation = operation_of(s, &index);
  int is = operation && operation->state == PENDING;
  int probe = is && operation->started.probe;
  if (is) operation->cancelling = 1;
  if (probe) {
    operation->outcome.status = (heddle_mpi_status){.source = operation->started.source, .tag = operation->started.tag, .cancelled = 1};
    completed(index);
    wake(AWAKE);
  }
  pthread_mutex_unlock(&table);
  if (is && !probe) code = heddle_mpi_calls->cancel(&requests[index]);
  pthread_mutex_unlock(&testing);
  return code;
}

/* A collective cannot be cancelled: it gets another slot, in which it keeps its memory and its communicator until MPI is done
 * with it. Under both locks. */
static void detach(int32_t index)
{
  struct heddle_mpi_started started = operations[index].started;
  started.request = requests[index];
  started.detached = 1;
  slot rest = occupy(&started); /* may move the operations */
  requests[index] = heddle_mpi_calls->no_request;
  struct heddle_mpi_outcome *outcome = &operations[index].outcome;
  outcome->status = (heddle_mpi_status){.error = CLOSED, .lost = rest <= 0};
  outcome->message = rest > 0 ? rest : 0;
  completed(index);
}

/* Probes and receives that have not matched end; one that has matched ends with its message. A send is MPI's since its
 * start: the receiver may still take it. */
int heddle_mpi_engine_close(native comm)
{
  heddle_mpi_kept_forget(comm);
  pthread_mutex_lock(&testing);
  int32_t count = join();
  for (int32_t i = 0; i < count; i++) {
    pthread_mutex_lock(&table);
    struct operation *operation = &operations[i];
    int is = operation->state == PENDING && operation->joined && operation->started.comm == comm &&
             !operation->started.sends && !operation->started.detached;
    int receive = is && !operation->started.probe && !operation->started.collective;
    if (is && operation->started.probe) {
      operation->outcome.status = (heddle_mpi_status){.error = CLOSED};
      completed(i);
    } else if (is && operation->started.collective) {
      detach(i);
    } else if (receive) {
      operation->closing = 1;
    }
    pthread_mutex_unlock(&table);
    /* A failure leaves it as it was: a receive that MPI ends when it comes, or never. */
    if (receive && !heddle_mpi_calls->cancel(&requests[i])) {
      heddle_mpi_status status;
      if (tested(&requests[i], &status)) complete(i, &status, 0);
    }
  }
  pthread_mutex_lock(&table);
  pthread_cond_signal(&news);
  int free_now = !lingers(comm);
  pthread_mutex_unlock(&table);
  pthread_mutex_unlock(&testing);
  return free_now;
}

/* Under `table`: what is complete. What nobody is parked for is left to its waiter for one look. */
static int collect(struct heddle_mpi_outcome *outcomes, int most)
{
  int n = 0;
  for (int32_t i = 0; i < used && n < most && unclaimed; i++) {
    struct operation *operation = &operations[i];
    if (operation->state != COMPLETE || !operation->registered) continue;
    if (operation->watched || operation->seen) claim(i, &outcomes[n++]);
    else operation->seen = 1;
  }
  return n;
}

/* Under `table`. */
static void nap_for(int64_t nanos)
{
  if (nanos < 5000) return; /* the system would take longer */
  int64_t until = now() + nanos;
  struct timespec t = {until / 1000000000, until % 1000000000};
  napping = watched ? SHORT : LONG;
  pthread_cond_timedwait(&news, &table, &t);
  napping = AWAKE;
}

/* The length of a nap: an eighth of how long nothing has happened, and 24 times what a look takes, so that the
 * engine needs at most 4 % of a core; short only while somebody is parked. At first it is no longer than nothing has
 * happened: with thousands of operations a look takes a millisecond, and what comes next would wait for 24. For a large message a 256th, which reaches
 * the longest nap of 1 ms after 256 ms. */
static int64_t nap_after(int64_t idle, int64_t look)
{
  int64_t longest = atomic_load_explicit(&longest_nap, memory_order_relaxed);
  /* A large message comes in pieces, of which a look takes one or two. */
  if (watched && atomic_load_explicit(&bulky, memory_order_relaxed)) {
    int64_t nap = idle / 256;
    return nap < longest ? nap : longest;
  }
  int64_t nap = idle / 8;
  if (!watched) nap = 5 * longest;
  else if (nap < 20000) nap = 20000;
  else if (nap > longest) nap = longest;
  int64_t least = 24 * look < idle ? 24 * look : idle;
  return nap < least ? least : nap;
}

/* Waits, if patient, until operations that were registered are complete, and takes them: how many, or -1 when the
 * engine is to end. Called by one thread. */
int heddle_mpi_engine(struct heddle_mpi_outcome *outcomes, int most, int patient)
{
  int64_t began = now();
  for (;;) {
    int64_t before = now();
    pthread_mutex_lock(&testing);
    int done = test_everything();
    pthread_mutex_unlock(&testing);
    int64_t after = now();
    pthread_mutex_lock(&table);
    int n = stopping ? -1 : collect(outcomes, most);
    if (!n && patient) {
      if (done > 0) {
        began = after; /* MPI finds a few messages at a time: look again at once */
      } else if (pending || unclaimed) {
        nap_for(nap_after(after - began, after - before));
      } else if (capacity > SMALLEST && used / 4 > 0) {
        /* Waiters took the last outcomes after the look, so that look did not shrink the table; the next one does. */
      } else {
        napping = ENDLESS;
        pthread_cond_wait(&news, &table);
        napping = AWAKE;
        began = now();
      }
    }
    pthread_mutex_unlock(&table);
    if (n || !patient) return n;
  }
}

/* Makes the engine return -1. */
void heddle_mpi_engine_stop(void)
{
  pthread_mutex_lock(&table);
  stopping = 1;
  pthread_cond_signal(&news);
  pthread_mutex_unlock(&table);
}

int heddle_mpi_engine_begin(void)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  int code = pthread_cond_init(&news, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return code ? NO_MEMORY : 0;
}

/* The end of the engine's OS thread ----------------------------------------------------------------------------- */

/* The runtime's last act on a bound thread, after the thread's Haskell code, is to take its entry off a list under a lock,
 * which the end of the program destroys. A program that ends then would be aborted (GHC 9.10: "ACQUIRE_LOCK failed"), so
 * the end of MPI waits for the OS thread: glibc runs the destructors of a thread's own data after all of its code. */
struct heddle_mpi_thread {
  int ended;
};

static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static int thread_key_made;
static pthread_cond_t thread_ended = PTHREAD_COND_INITIALIZER;

static void thread_ends(void *data)
{
  struct heddle_mpi_thread *thread = data;
  pthread_mutex_lock(&table);
  thread->ended = 1;
  pthread_cond_broadcast(&thread_ended);
  pthread_mutex_unlock(&table);
}

static void make_thread_key(void)
{
  thread_key_made = !pthread_key_create(&thread_key, thread_ends);
}

/* Called by the thread; 0 without memory or keys, and then nobody can wait for its end. */
struct heddle_mpi_thread *heddle_mpi_thread_begin(void)
{
  pthread_once(&thread_once, make_thread_key);
  struct heddle_mpi_thread *thread = thread_key_made ? calloc(1, sizeof *thread) : 0;
  if (thread && pthread_setspecific(thread_key, thread)) {
    free(thread);
    thread = 0;
  }
  return thread;
}

/* Waits until the OS thread has done everything; once. */
void heddle_mpi_thread_wait(struct heddle_mpi_thread *thread)
{
  if (!thread) return;
  pthread_mutex_lock(&table);
  while (!thread->ended) pthread_cond_wait(&thread_ended, &table);
  pthread_mutex_unlock(&table);
  free(thread);
}

static int unfinished;

/* How many operations are pending that are no probes. */
static int32_t pending_requests(void)
{
  pthread_mutex_lock(&table);
  int32_t n = pending - probes;
  pthread_mutex_unlock(&table);
  return n;
}

/* Before MPI is finalised: receives that nobody waits for are cancelled, sends have a second to be received. */
void heddle_mpi_engine_end(void)
{
  pthread_mutex_lock(&testing);
  int32_t count = join();
  struct heddle_mpi_started started;
  for (int32_t i = 0; i < count; i++)
    if (pending_at(i, &started) && !started.probe && !started.sends && !started.file) heddle_mpi_calls->cancel(&requests[i]);
  int64_t until = now() + 1000000000;
  while (pending_requests() > 0 && now() < until) {
    test_everything();
    relax();
  }
  for (int32_t i = 0; i < count; i++) {
    if (!pending_at(i, &started) || started.probe) continue;
    unfinished += started.sends;
    if (!started.persistent) heddle_mpi_calls->request_free(&requests[i]);
  }
  heddle_mpi_kept_end();
  pthread_mutex_unlock(&testing);
}

/* How many sends were given up when the world ended. */
int heddle_mpi_unfinished(void)
{
  return unfinished;
}
