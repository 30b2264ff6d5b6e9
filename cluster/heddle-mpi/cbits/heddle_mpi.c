/* What Haskell calls. Each function checks that there is a world, finds the objects behind the handles, and calls
 * the provider. Those that start an operation return 0 with its outcome, if it was complete within the budget (or
 * failed), else its slot; the others return 0 or an error. See heddle_mpi.h and heddle_mpi_core.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "heddle_mpi_core.h"

const struct heddle_mpi_calls *heddle_mpi_calls;
_Atomic int heddle_mpi_state = S_NEW;
static _Atomic int joined; /* There are, or were, processes outside of the world that its end may wait for. */

static __thread char detail[512];

void heddle_mpi_set_detail(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
}

#define CALLS heddle_mpi_calls
#define ENTER()                                    \
  do {                                             \
    int refused_ = heddle_mpi_refused();           \
    if (__builtin_expect(refused_, 0)) return refused_; \
  } while (0)
/* Objects are held until the function returns: another thread that closes one waits so long. */
static void release_held(handle *held)
{
  if (*held) heddle_mpi_handle_release(*held);
}
#define HOLD(h, kind, object, failed)                                 \
  native object = 0;                                                  \
  handle object##_held __attribute__((cleanup(release_held))) = 0;    \
  do {                                                                \
    int code_ = heddle_mpi_handle_hold(h, kind, &object);             \
    if (__builtin_expect(code_, 0)) return failed;                    \
    object##_held = h;                                                \
  } while (0)
/* 0 is no object. */
#define HOLD_IF(h, kind, object, failed)                              \
  native object = 0;                                                  \
  handle object##_held __attribute__((cleanup(release_held))) = 0;    \
  do {                                                                \
    int code_ = (h) ? heddle_mpi_handle_hold(h, kind, &object) : 0;   \
    if (__builtin_expect(code_, 0)) return failed;                    \
    object##_held = h;                                                \
  } while (0)
#define FIND(h, kind, object) HOLD(h, kind, object, code_)
#define FIND_IF(h, kind, object) HOLD_IF(h, kind, object, code_)

/* The same for what starts an operation. */
#define START()                                                              \
  do {                                                                       \
    int refused_ = heddle_mpi_refused();                                     \
    if (__builtin_expect(refused_, 0)) return heddle_mpi_failed(refused_, outcome); \
  } while (0)
#define START_WITH(h, kind, object) HOLD(h, kind, object, heddle_mpi_failed(code_, outcome))
#define START_WITH_IF(h, kind, object) HOLD_IF(h, kind, object, heddle_mpi_failed(code_, outcome))

static int keep_within(int code, int kind, native object, handle within, handle *made)
{
  *made = 0;
  if (code || !object) return code;
  handle h = heddle_mpi_handle_new(kind, object, within);
  if (h < 0) return NO_MEMORY;
  *made = h;
  return 0;
}

static int keep(int code, int kind, native object, handle *made)
{
  return keep_within(code, kind, object, 0, made);
}

/* Life --------------------------------------------------------------------------------------------------------- */

/* A number that a launcher has set; 0 without it. */
static int launched(const char *variable)
{
  const char *value = getenv(variable);
  return value ? atoi(value) : 0;
}

/* Was this process started by a launcher that speaks PMIx (prterun, srun --mpi=pmix)? It sets no number of
   processes; Open MPI asks the launcher's server for it. */
static int under_pmix(void)
{
  return getenv("PMIX_RANK") && getenv("PMIX_NAMESPACE");
}

/* Which provider: 0 alone, 1 Open MPI, 2 MPICH. Open MPI's launcher sets its own variables; MPICH's launcher and
   srun --mpi=pmi2 speak PMI; what speaks only PMIx is for Open MPI. */
int heddle_mpi_guess(void)
{
  if (launched("OMPI_COMM_WORLD_SIZE")) return 1;
  if (launched("PMI_SIZE")) return 2;
  if (under_pmix()) return 1;
  return 0;
}

/* At least how many processes a launcher has started together with this one, whichever launcher it was; 0 without
   one. Of PMIx the own rank is known. A Slurm step's variables are inherited by launchers that run inside of it, so they
   count only where no MPI's launcher has set its own; a batch script is no step of its job, and has none. */
int heddle_mpi_launched(void)
{
  int open_mpi = launched("OMPI_COMM_WORLD_SIZE"), pmi = launched("PMI_SIZE");
  if (open_mpi || pmi) return open_mpi > pmi ? open_mpi : pmi;
  int slurm = getenv("SLURM_PROCID") ? launched("SLURM_STEP_NUM_TASKS") : 0;
  int pmix = under_pmix() ? launched("PMIX_RANK") + 1 : 0;
  return slurm > pmix ? slurm : pmix;
}

static const struct heddle_mpi_calls *provider(int which)
{
  return which == 1 ? heddle_mpi_provider_openmpi() : which == 2 ? heddle_mpi_provider_mpich() : heddle_mpi_provider_alone();
}

int heddle_mpi_has_provider(int which)
{
  return provider(which) != 0;
}

/* Makes the world. `library` is the file to open, or 0 for the usual one. */
int heddle_mpi_begin(int which, const char *library)
{
  int state = atomic_load(&heddle_mpi_state);
  if (state != S_NEW) return state == S_RUNNING ? ARGUMENT : FINISHED;
  const struct heddle_mpi_calls *calls = provider(which);
  if (!calls) return NO_PROVIDER;
  CALLS = calls;
  int code = calls->begin(library);
  if (!code) code = heddle_mpi_handles_begin();
  if (!code) code = heddle_mpi_engine_begin();
  if (code) return code;
  native spawner = 0;
  if (!calls->parent(&spawner) && spawner) joined = 1;
  atomic_store(&heddle_mpi_state, S_RUNNING);
  return 0;
}

int heddle_mpi_end(void)
{
  ENTER();
  heddle_mpi_engine_end();
  atomic_store(&heddle_mpi_state, S_FINISHED);
  return CALLS->end();
}

void heddle_mpi_abort(int code)
{
  fflush(NULL);
  if (!heddle_mpi_refused()) CALLS->abort_job(CALLS->world, code);
  _Exit(code);
}

/* A neutral class; those of Heddle's own errors are their codes. */
int heddle_mpi_error_class(int code)
{
  return code <= 0 || !CALLS ? code : CALLS->error_class(code);
}

void heddle_mpi_error_text(int code, char *text, int capacity)
{
  if (code > 0 && CALLS) CALLS->error_text(code, text, capacity);
  else snprintf(text, capacity, "%s", detail);
}

int heddle_mpi_version(char *text, int capacity)
{
  ENTER();
  return CALLS->version(text, capacity);
}

int heddle_mpi_is_running(void)
{
  return !heddle_mpi_refused();
}

double heddle_mpi_clock(void)
{
  return heddle_mpi_refused() ? -1 : CALLS->clock();
}

double heddle_mpi_clock_tick(void)
{
  return heddle_mpi_refused() ? -1 : CALLS->clock_tick();
}

int heddle_mpi_greatest_tag(void)
{
  ENTER();
  return CALLS->greatest_tag;
}

/* Those who spawned this process: one handle, however often it is asked for; 0 when it has been closed. */
int heddle_mpi_parent(handle *made)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static handle known;
  native comm = 0;
  int code = 0;
  ENTER();
  *made = 0;
  pthread_mutex_lock(&lock);
  if (!known) {
    code = CALLS->parent(&comm);
    if (!code && comm) code = keep(code, H_COMM, comm, &known);
  }
  if (!code && known && !heddle_mpi_handle_find(known, H_COMM, &comm)) *made = known;
  pthread_mutex_unlock(&lock);
  return code;
}

int heddle_mpi_joined(void)
{
  return joined;
}

/* Point to point ------------------------------------------------------------------------------------------------ */

/* Bytes, as far as they matter: more than BULK, or not. A derived type may be of any size. */
static inline int64_t weight(int64_t count, handle type)
{
  if (__builtin_expect(type >= H_ELEMENTS + ELEMENTS, 0)) return BULK + 1;
  return type == H_ELEMENTS + E_BYTE ? count : count * 16;
}

/* With `outcome` 0 it returns a failure itself: SEND_FAILED minus the error, or SEND_LOST minus the error if the send
 * may have begun. */
#define SEND_FAILED (-1000000LL)
#define SEND_LOST (-(1LL << 40))

static slot sent(handle comm, int rank, int tag, int mode, const void *data, int64_t count, handle type, int64_t budget,
                 int held, struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(comm, H_COMM, c);
  START_WITH(type, H_TYPE, t);
  struct heddle_mpi_started started = {.bytes = weight(count, type), .sends = 1};
  int code = CALLS->isend(c, rank, tag, mode, data, count, t, &started.request);
  if (__builtin_expect(code, 0)) return heddle_mpi_start_failed(code, outcome);
  return heddle_mpi_settle(&started, budget, held, outcome);
}

slot heddle_mpi_send(handle comm, int rank, int tag, int mode, const void *data, int64_t count, handle type, int64_t budget,
                     int held, struct heddle_mpi_outcome *outcome)
{
  if (outcome) return sent(comm, rank, tag, mode, data, count, type, budget, held, outcome);
  struct heddle_mpi_outcome here;
  slot s = sent(comm, rank, tag, mode, data, count, type, budget, held, &here);
  if (__builtin_expect(s == 0 && here.status.error, 0)) return (here.status.lost ? SEND_LOST : SEND_FAILED) - here.status.error;
  return s;
}

slot heddle_mpi_recv(handle comm, int source, int tag, void *data, int64_t count, handle type, int64_t budget, int held,
                     struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(comm, H_COMM, c);
  START_WITH(type, H_TYPE, t);
  if (heddle_mpi_any_kept() && heddle_mpi_kept_receive(c, source, tag, data, count, t, outcome)) return 0;
  struct heddle_mpi_started started = {.bytes = weight(count, type), .comm = c, .source = source, .tag = tag};
  int code = CALLS->irecv(c, source, tag, data, count, t, &started.request);
  if (__builtin_expect(code, 0)) return heddle_mpi_start_failed(code, outcome);
  return heddle_mpi_settle(&started, budget, held, outcome);
}

/* Waits for a message; the outcome has it. */
slot heddle_mpi_mprobe(handle comm, int source, int tag, int64_t budget, int held, struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(comm, H_COMM, c);
  if (heddle_mpi_any_kept() && heddle_mpi_kept_probe(c, source, tag, 1, outcome)) return 0;
  struct heddle_mpi_started started = {.probe = 1, .comm = c, .source = source, .tag = tag};
  return heddle_mpi_settle(&started, budget, held, outcome);
}

slot heddle_mpi_mrecv(native message, void *data, int64_t count, handle type, int64_t budget, int held,
                      struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(type, H_TYPE, t);
  if (__builtin_expect(heddle_mpi_is_kept(message), 0)) {
    int failed = heddle_mpi_kept_receive_reserved(message, data, count, t, outcome);
    return failed ? heddle_mpi_failed(failed, outcome) : 0;
  }
  struct heddle_mpi_started started = {.bytes = weight(count, type)};
  int code = CALLS->imrecv(data, count, t, &message, &started.request);
  if (code) return heddle_mpi_start_failed(code, outcome);
  return heddle_mpi_settle(&started, budget, held, outcome);
}

/* Is there a message? 1 and its status, 0, or an error with 2. */
int heddle_mpi_iprobe(handle comm, int source, int tag, struct heddle_mpi_outcome *outcome)
{
  native c;
  int found = 0;
  int code = heddle_mpi_refused();
  if (!code) code = heddle_mpi_handle_hold(comm, H_COMM, &c);
  if (!code) {
    if (heddle_mpi_any_kept()) found = heddle_mpi_kept_probe(c, source, tag, 0, outcome);
    if (!found) code = CALLS->iprobe(c, source, tag, &found, &outcome->status);
    heddle_mpi_handle_release(comm);
  }
  if (code) heddle_mpi_failed(code, outcome);
  return code ? 2 : found;
}

/* Keeps a message for the next receive that it fits, or with comm 0 for a receive of the message that it then is. */
int heddle_mpi_keep(handle comm, int source, int tag, int error, int64_t bytes, void *data, int64_t count, handle type,
                    native *message)
{
  ENTER();
  FIND_IF(comm, H_COMM, c);
  FIND(type, H_TYPE, t);
  heddle_mpi_status status = {.source = source, .tag = tag, .error = error, .bytes = bytes};
  return heddle_mpi_keep_native(c, &status, data, count, t, type >= H_ELEMENTS + ELEMENTS, message);
}

int heddle_mpi_send_init(handle comm, int rank, int tag, int mode, const void *data, int64_t count, handle type, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  FIND(type, H_TYPE, t);
  native request = 0;
  int code = CALLS->send_init(c, rank, tag, mode, data, count, t, &request);
  return keep_within(code, H_PERSISTENT, request, comm, made);
}

int heddle_mpi_recv_init(handle comm, int source, int tag, void *data, int64_t count, handle type, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  FIND(type, H_TYPE, t);
  native request = 0;
  int code = CALLS->recv_init(c, source, tag, data, count, t, &request);
  return keep_within(code, H_PERSISTENT, request, comm, made);
}

/* The source, the tag and the memory are those of a receive. */
slot heddle_mpi_start(handle persistent, int source, int tag, void *data, int64_t count, handle type, int64_t bytes, int sends,
                      int64_t budget, int held, struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(persistent, H_PERSISTENT, request);
  START_WITH(heddle_mpi_handle_within(persistent), H_COMM, c);
  if (!sends && heddle_mpi_any_kept()) {
    START_WITH(type, H_TYPE, t);
    if (heddle_mpi_kept_receive(c, source, tag, data, count, t, outcome)) return 0;
  }
  struct heddle_mpi_started started = {
    .request = request, .bytes = bytes, .comm = c, .source = source, .tag = tag, .persistent = 1, .sends = sends};
  int code = CALLS->start(&started.request);
  if (code) return heddle_mpi_start_failed(code, outcome);
  return heddle_mpi_settle(&started, budget, held, outcome);
}

int heddle_mpi_persistent_free(handle persistent)
{
  ENTER();
  native request;
  int code = heddle_mpi_handle_take(persistent, H_PERSISTENT, &request);
  return code ? code : CALLS->request_free(&request);
}

/* Collectives --------------------------------------------------------------------------------------------------- */

/* What Haskell gives: handles, and `native_op` an index of enum heddle_mpi_operator or -1. */
struct heddle_mpi_asked {
  handle comm, send_type, receive_type;
  const void *send;
  void *receive;
  int64_t sends, receives;
  const int64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
  int32_t kind, root, op;
};

/* With `blocking` the implementation's own blocking call: then `held` must be 0. */
slot heddle_mpi_collective(const struct heddle_mpi_asked *asked, int blocking, int64_t budget, int held,
                           struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(asked->comm, H_COMM, comm);
  START_WITH_IF(asked->send_type, H_TYPE, send_type);
  START_WITH_IF(asked->receive_type, H_TYPE, receive_type);
  struct heddle_mpi_collective_args args = {
    .comm = comm, .kind = asked->kind, .root = asked->root, .send = asked->send, .receive = asked->receive,
    .sends = asked->sends, .receives = asked->receives, .send_type = send_type, .receive_type = receive_type,
    .send_counts = asked->send_counts, .send_offsets = asked->send_offsets,
    .receive_counts = asked->receive_counts, .receive_offsets = asked->receive_offsets,
    .op = asked->op >= 0 ? CALLS->op[asked->op] : 0};
  struct heddle_mpi_started started = {
    .bytes = weight(asked->sends > asked->receives ? asked->sends : asked->receives, asked->send_type), .comm = comm, .collective = 1};
  int code = CALLS->collective(&args, blocking ? 0 : &started.request);
  if (blocking) return heddle_mpi_failed(code, outcome);
  if (code) return heddle_mpi_start_failed(code, outcome);
  return heddle_mpi_settle(&started, budget, held, outcome);
}

/* Communicators ------------------------------------------------------------------------------------------------- */

int heddle_mpi_comm_size(handle comm, int *size)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->comm_size(c, size);
}

int heddle_mpi_comm_rank(handle comm, int *rank)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->comm_rank(c, rank);
}

int heddle_mpi_comm_remote_size(handle comm, int *size)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->comm_remote_size(c, size);
}

int heddle_mpi_comm_compare(handle a, handle b, int *how)
{
  ENTER();
  FIND(a, H_COMM, first);
  FIND(b, H_COMM, second);
  return CALLS->comm_compare(first, second, how);
}

int heddle_mpi_comm_dup(handle comm, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_dup(c, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_comm_split(handle comm, int colour, int key, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_split(c, colour, key, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_comm_split_shared(handle comm, int key, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_split_shared(c, key, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_comm_create(handle comm, handle group, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  FIND_IF(group, H_GROUP, g);
  native object = 0;
  int code = CALLS->comm_create(c, g, &object);
  return keep(code, H_COMM, object, made);
}

/* Whoever waits for something in it learns that it is closed, before the implementation may use its handle again. */
static int close_comm(handle comm, int (*close)(native *comm))
{
  native c;
  int code = heddle_mpi_handle_take(comm, H_COMM, &c);
  if (code) return code;
  return heddle_mpi_engine_close(c) ? close(&c) : 0;
}

int heddle_mpi_comm_free(handle comm)
{
  ENTER();
  return close_comm(comm, CALLS->comm_free);
}

int heddle_mpi_comm_disconnect(handle comm)
{
  ENTER();
  return close_comm(comm, CALLS->comm_disconnect);
}

int heddle_mpi_comm_name(handle comm, char *text, int capacity, int set)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->comm_name(c, text, capacity, set);
}

int heddle_mpi_inter_create(handle local, int leader, handle peer, int remote_leader, int tag, handle *made)
{
  ENTER();
  FIND(local, H_COMM, l);
  FIND_IF(peer, H_COMM, p);
  native object = 0;
  int code = CALLS->inter_create(l, leader, p, remote_leader, tag, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_inter_merge(handle inter, int high, handle *made)
{
  ENTER();
  FIND(inter, H_COMM, c);
  native object = 0;
  int code = CALLS->inter_merge(c, high, &object);
  return keep(code, H_COMM, object, made);
}

/* Groups -------------------------------------------------------------------------------------------------------- */

int heddle_mpi_group_of(handle comm, int remote, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->group_of(c, remote, &object);
  return keep(code, H_GROUP, object, made);
}

int heddle_mpi_group_size(handle group, int *size)
{
  ENTER();
  *size = 0;
  FIND_IF(group, H_GROUP, g);
  return g ? CALLS->group_size(g, size) : 0;
}

int heddle_mpi_group_rank(handle group, int *rank)
{
  ENTER();
  *rank = UNDEFINED;
  FIND_IF(group, H_GROUP, g);
  return g ? CALLS->group_rank(g, rank) : 0;
}

int heddle_mpi_group_pick(handle group, int count, const int *ranks, int leave_out, handle *made)
{
  ENTER();
  FIND_IF(group, H_GROUP, g);
  native object = 0;
  int code = CALLS->group_pick(g, count, ranks, leave_out, &object);
  return keep(code, H_GROUP, object, made);
}

int heddle_mpi_group_combine(handle a, handle b, int how, handle *made)
{
  ENTER();
  FIND_IF(a, H_GROUP, first);
  FIND_IF(b, H_GROUP, second);
  native object = 0;
  int code = CALLS->group_combine(first, second, how, &object);
  return keep(code, H_GROUP, object, made);
}

int heddle_mpi_group_translate(handle from, int count, const int *ranks, handle to, int *translated)
{
  ENTER();
  FIND_IF(from, H_GROUP, first);
  FIND_IF(to, H_GROUP, second);
  return CALLS->group_translate(first, count, ranks, second, translated);
}

int heddle_mpi_group_free(handle group)
{
  ENTER();
  if (!group) return 0;
  native g;
  int code = heddle_mpi_handle_take(group, H_GROUP, &g);
  return code ? code : CALLS->group_free(&g);
}

/* Topologies ---------------------------------------------------------------------------------------------------- */

int heddle_mpi_dims_create(int nodes, int dimensions, int *sizes)
{
  ENTER();
  return CALLS->dims_create(nodes, dimensions, sizes);
}

int heddle_mpi_cart_create(handle comm, int dimensions, const int *sizes, const int *periodic, int reorder, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->cart_create(c, dimensions, sizes, periodic, reorder, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_cart_get(handle comm, int capacity, int *dimensions, int *sizes, int *periodic, int *coordinates)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->cart_get(c, capacity, dimensions, sizes, periodic, coordinates);
}

int heddle_mpi_cart_rank(handle comm, const int *coordinates, int *rank)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->cart_rank(c, coordinates, rank);
}

int heddle_mpi_cart_coordinates(handle comm, int rank, int dimensions, int *coordinates)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->cart_coordinates(c, rank, dimensions, coordinates);
}

int heddle_mpi_cart_shift(handle comm, int dimension, int by, int *source, int *destination)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->cart_shift(c, dimension, by, source, destination);
}

int heddle_mpi_cart_sub(handle comm, const int *wanted, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->cart_sub(c, wanted, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_graph_create(handle comm, int ins, const int *sources, int outs, const int *destinations, int reorder, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->graph_create(c, ins, sources, outs, destinations, reorder, &object);
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_graph_neighbours(handle comm, int ins_capacity, int *ins, int *sources, int outs_capacity, int *outs,
                                int *destinations)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->graph_neighbours(c, ins_capacity, ins, sources, outs_capacity, outs, destinations);
}

/* How many send to this process in its topology, and to how many it sends. */
int heddle_mpi_neighbour_counts(handle comm, int *ins, int *outs)
{
  ENTER();
  FIND(comm, H_COMM, c);
  return CALLS->neighbour_counts(c, ins, outs);
}

/* Types --------------------------------------------------------------------------------------------------------- */

/* A new type, ready for use. */
static int keep_type(int code, native type, handle *made)
{
  *made = 0;
  if (!code) code = CALLS->type_commit(&type);
  return keep(code, H_TYPE, type, made);
}

int heddle_mpi_type_contiguous(int64_t count, handle type, handle *made)
{
  ENTER();
  FIND(type, H_TYPE, t);
  native object = 0;
  int code = CALLS->type_contiguous(count, t, &object);
  return keep_type(code, object, made);
}

int heddle_mpi_type_vector(int64_t count, int64_t length, int64_t stride_bytes, handle type, handle *made)
{
  ENTER();
  FIND(type, H_TYPE, t);
  native object = 0;
  int code = CALLS->type_vector(count, length, stride_bytes, t, &object);
  return keep_type(code, object, made);
}

int heddle_mpi_type_indexed(int64_t count, const int64_t *lengths, const int64_t *offset_bytes, handle type, handle *made)
{
  ENTER();
  FIND(type, H_TYPE, t);
  native object = 0;
  int code = CALLS->type_indexed(count, lengths, offset_bytes, t, &object);
  return keep_type(code, object, made);
}

int heddle_mpi_type_subarray(int dimensions, const int64_t *sizes, const int64_t *part, const int64_t *starts, int column_major,
                             handle type, handle *made)
{
  ENTER();
  FIND(type, H_TYPE, t);
  native object = 0;
  int code = CALLS->type_subarray(dimensions, sizes, part, starts, column_major, t, &object);
  return keep_type(code, object, made);
}

int heddle_mpi_type_resized(handle type, int64_t lower_bytes, int64_t extent_bytes, handle *made)
{
  ENTER();
  FIND(type, H_TYPE, t);
  native object = 0;
  int code = CALLS->type_resized(t, lower_bytes, extent_bytes, &object);
  return keep_type(code, object, made);
}

int heddle_mpi_type_struct(int count, const int64_t *lengths, const int64_t *offset_bytes, const handle *types, handle *made)
{
  ENTER();
  native found[count > 0 ? count : 1], object = 0;
  int held = 0, code = 0;
  while (held < count && !(code = heddle_mpi_handle_hold(types[held], H_TYPE, &found[held]))) held++;
  if (!code) code = CALLS->type_struct(count, lengths, offset_bytes, found, &object);
  while (held > 0) heddle_mpi_handle_release(types[--held]);
  return keep_type(code, object, made);
}

int heddle_mpi_type_measure(handle type, int64_t *size, int64_t *lower, int64_t *extent)
{
  ENTER();
  FIND(type, H_TYPE, t);
  return CALLS->type_measure(t, size, lower, extent);
}

int heddle_mpi_type_reach(handle type, int64_t *low, int64_t *high)
{
  ENTER();
  FIND(type, H_TYPE, t);
  return CALLS->type_reach(t, low, high);
}

int heddle_mpi_type_free(handle type)
{
  ENTER();
  native t;
  int code = heddle_mpi_handle_take(type, H_TYPE, &t);
  return code ? code : CALLS->type_free(&t);
}

/* Files --------------------------------------------------------------------------------------------------------- */

int heddle_mpi_file_open(handle comm, const char *path, int mode, const char *const *hints, int hint_count, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->file_open(c, path, mode, hints, hint_count, &object);
  return keep(code, H_FILE, object, made);
}

int heddle_mpi_file_close(handle file)
{
  ENTER();
  native f;
  int code = heddle_mpi_handle_take(file, H_FILE, &f);
  return code ? code : CALLS->file_close(&f);
}

int heddle_mpi_file_delete(const char *path)
{
  ENTER();
  return CALLS->file_delete(path);
}

int heddle_mpi_file_size(handle file, int64_t *bytes)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_size(f, bytes);
}

int heddle_mpi_file_resize(handle file, int64_t bytes, int preallocate)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_resize(f, bytes, preallocate);
}

int heddle_mpi_file_sync(handle file)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_sync(f);
}

int heddle_mpi_file_atomic(handle file, int yes)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_atomic(f, yes);
}

int heddle_mpi_file_view(handle file, int64_t offset_bytes, handle element, handle view)
{
  ENTER();
  FIND(file, H_FILE, f);
  FIND(element, H_TYPE, e);
  FIND(view, H_TYPE, v);
  return CALLS->file_view(f, offset_bytes, e, v);
}

int heddle_mpi_file_seek(handle file, int64_t by, int whence, int shared)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_seek(f, by, whence, shared);
}

int heddle_mpi_file_tell(handle file, int shared, int64_t *offset)
{
  ENTER();
  FIND(file, H_FILE, f);
  return CALLS->file_tell(f, shared, offset);
}

/* How many of `most` elements of the view, each of so many bytes, from an offset on lie before the end of the file.
 * The elements of a view lie in ascending order. */
int heddle_mpi_file_available(handle file, int64_t offset, int64_t element_bytes, int64_t most, int64_t *available)
{
  ENTER();
  FIND(file, H_FILE, f);
  int64_t size, byte, low = 0, high = most, middle = most - 1; /* the last one first: mostly it is there */
  int code = CALLS->file_size(f, &size);
  while (!code && low < high) {
    code = CALLS->file_byte(f, offset + middle, &byte);
    if (byte <= size - element_bytes) low = middle + 1; else high = middle;
    middle = low + (high - low) / 2;
  }
  *available = low;
  return code;
}

/* With `blocking` it returns 0 and the outcome. */
slot heddle_mpi_file_transfer(handle file, int write, int place, int together, int64_t offset, void *data, int64_t count,
                              handle type, int blocking, struct heddle_mpi_outcome *outcome)
{
  START();
  START_WITH(file, H_FILE, f);
  START_WITH(type, H_TYPE, t);
  struct heddle_mpi_started started = {.bytes = weight(count, type), .file = 1};
  *outcome = (struct heddle_mpi_outcome){0};
  int code = CALLS->file_transfer(f, write, place, together, offset, data, count, t, blocking ? 0 : &started.request,
                                  &outcome->status);
  if (code) return heddle_mpi_failed(code, outcome);
  return blocking ? 0 : heddle_mpi_settle(&started, 0, 0, outcome);
}

/* Processes ----------------------------------------------------------------------------------------------------- */

int heddle_mpi_port_open(char *port, int capacity)
{
  ENTER();
  return CALLS->port_open(port, capacity);
}

int heddle_mpi_port_close(const char *port)
{
  ENTER();
  return CALLS->port_close(port);
}

int heddle_mpi_comm_accept(const char *port, handle comm, int root, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_accept(port, c, root, &object);
  if (!code) joined = 1;
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_comm_connect(const char *port, handle comm, int root, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_connect(port, c, root, &object);
  if (!code) joined = 1;
  return keep(code, H_COMM, object, made);
}

int heddle_mpi_comm_spawn(handle comm, int root, const char *program, char *const *arguments, int count, handle *made)
{
  ENTER();
  FIND(comm, H_COMM, c);
  native object = 0;
  int code = CALLS->comm_spawn(c, root, program, arguments, count, &object);
  if (!code) joined = 1;
  return keep(code, H_COMM, object, made);
}
