/* What heddle_mpi.c (calls), heddle_mpi_handles.c (handles), heddle_mpi_engine.c (requests) and heddle_mpi_kept.c (messages
 * that were given back) share. */
#ifndef HEDDLE_MPI_CORE_H
#define HEDDLE_MPI_CORE_H
#include <stdatomic.h>
#include "heddle_mpi.h"

/* The provider in use; 0 before begin. */
extern const struct heddle_mpi_calls *heddle_mpi_calls;

enum heddle_mpi_state { S_NEW, S_RUNNING, S_FINISHED };
extern _Atomic int heddle_mpi_state;

static inline int heddle_mpi_refused(void)
{
  int state = atomic_load_explicit(&heddle_mpi_state, memory_order_acquire);
  return __builtin_expect(state == S_RUNNING, 1) ? 0 : state == S_NEW ? NOT_STARTED : FINISHED;
}

/* The class of an error, of enum heddle_mpi_class; those of Heddle's own errors are their codes. */
int heddle_mpi_error_class(int code);

/* Handles.
 *
 * What Haskell holds is not the implementation's handle but an index and a generation, so that the use of a closed
 * object is found out instead of reaching freed memory, and so that what was left open can be counted. A handle is
 * never reused; 0 is no object. The first ones are fixed. */
typedef int64_t handle;
enum heddle_mpi_kind { H_FREE, H_COMM, H_GROUP, H_TYPE, H_FILE, H_PERSISTENT, HANDLE_KINDS };
enum { H_WORLD = 1, H_SELF = 2, H_ELEMENTS = 16 };

int heddle_mpi_handles_begin(void);
handle heddle_mpi_handle_new(int kind, native object, handle within); /* NO_MEMORY if there is none */
int heddle_mpi_handle_find(handle h, int kind, native *object); /* 0 or CLOSED */
/* The same, and until the release it is not closed. */
int heddle_mpi_handle_hold(handle h, int kind, native *object);
void heddle_mpi_handle_release(handle h);
handle heddle_mpi_handle_within(handle h); /* of a handle that is held: the communicator given to `new` */
/* The same, and it is closed now: waits until nobody holds it. */
int heddle_mpi_handle_take(handle h, int kind, native *object);
int heddle_mpi_handles_open(int kind); /* without the fixed ones */

/* Operations that have been started.
 *
 * One that is not complete at once gets a slot, which its waiters and the engine test. Whoever finds it complete
 * first takes it, with the outcome: exactly one does. A slot is a number with a generation, as a handle is. Calls
 * that hold their capability ("held") wait for nothing but a lock that others keep for a microsecond.
 *
 * While an operation of more than BULK bytes is outstanding, any test may copy that much: then no held call tests. */
typedef int64_t slot;
enum { BULK = 65536 };

struct heddle_mpi_outcome {
  heddle_mpi_status status;
  native message; /* of a probe that found one; of a collective in a communicator that was closed, its new slot */
  void *owner;    /* the stable pointer given to heddle_mpi_register; 0 without */
};

/* In `cancelled` of a status: MPI gave the operation up for a message that was kept; it is to be started again. */
enum { AGAIN = 2 };

/* What is waited for: a request, or with `probe` a message. */
struct heddle_mpi_started {
  native request;
  int64_t bytes;
  native comm;         /* where it waits for others; 0 for a message that was found, and for files */
  int32_t source, tag; /* of a probe */
  int8_t persistent, probe, sends, file, collective, detached;
};

int heddle_mpi_engine_begin(void);
void heddle_mpi_engine_end(void);
/* A message was kept: operations that wait for it end with AGAIN, soon. */
void heddle_mpi_engine_offer(void);
/* Before a communicator is freed, when no call holds it: what waits in it ends with CLOSED. 1 if it may be freed now; else the
 * engine frees it when the last collective in it is complete. */
int heddle_mpi_engine_close(native comm);
/* Test what was just started for as long as the budget says: 0 and the outcome, or its slot, or NO_MEMORY. */
slot heddle_mpi_settle(struct heddle_mpi_started *started, int64_t budget, int held, struct heddle_mpi_outcome *outcome);
/* End a call with an error: the outcome is that. */
slot heddle_mpi_failed(int code, struct heddle_mpi_outcome *outcome);
/* The same for an error of the call that starts an operation, which may have begun. */
slot heddle_mpi_start_failed(int code, struct heddle_mpi_outcome *outcome);

/* Messages whose receive was given up when they had come; heddle_mpi_kept.c says what each function does. */
extern _Atomic int heddle_mpi_kept; /* how many wait for a receive */

static inline int heddle_mpi_any_kept(void)
{
  return __builtin_expect(atomic_load_explicit(&heddle_mpi_kept, memory_order_relaxed) > 0, 0);
}

int heddle_mpi_is_kept(native message);
int heddle_mpi_keep_native(native comm, const heddle_mpi_status *status, void *data, int64_t count, native type, int derived,
                           native *message);
int heddle_mpi_kept_receive(native comm, int source, int tag, void *data, int64_t count, native type,
                            struct heddle_mpi_outcome *outcome);
int heddle_mpi_kept_probe(native comm, int source, int tag, int reserve, struct heddle_mpi_outcome *outcome);
int heddle_mpi_kept_receive_reserved(native message, void *data, int64_t count, native type, struct heddle_mpi_outcome *outcome);
void heddle_mpi_kept_offer(void (*wanted)(native comm, int source, int tag));
void heddle_mpi_kept_forget(native comm);
void heddle_mpi_kept_end(void);
#endif
