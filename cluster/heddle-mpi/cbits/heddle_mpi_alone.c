/*
 * A world of one process, which needs no MPI: what a program is in that was started without mpirun.
 *
 * The parts: messages and requests, collectives, communicators with groups and topologies, types, and files, each
 * in heddle_mpi_alone_*.c; here are the objects, the life of the world, and what it lacks. Its error codes are the
 * classes of enum heddle_mpi_class.
 *
 * Locks: the messages have one, each file has one, and below them is that of the list of objects. What is shared
 * besides is counted with atomic operations.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct heddle_mpi_calls calls;

/* Objects. */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *list;

void *alone_new(enum alone_kind kind, size_t size, int64_t more)
{
  size_t bytes;
  if (__builtin_add_overflow(size, more, &bytes)) return 0;
  struct object *object = malloc(bytes);
  if (!object) return 0;
  memset(object, 0, size);
  object->kind = kind;
  pthread_mutex_lock(&list_lock);
  object->after = list;
  if (list) list->before = object;
  list = object;
  pthread_mutex_unlock(&list_lock);
  return object;
}

static void clear(struct object *object)
{
  switch (object->kind) {
    case A_COMM: alone_clear_comm(object); break;
    case A_TYPE: alone_clear_type(object); break;
    case A_REQUEST: alone_clear_request(object); break;
    case A_FILE: alone_clear_file(object); break;
    default: break;
  }
}

void alone_free(void *freed)
{
  struct object *object = freed;
  clear(object);
  pthread_mutex_lock(&list_lock);
  if (object->after) object->after->before = object->before;
  if (object->before)
    object->before->after = object->after;
  else
    list = object->after;
  pthread_mutex_unlock(&list_lock);
  free(object);
}

void *alone_object(native handle, enum alone_kind kind)
{
  struct object *object = (struct object *)handle;
  return object && object->kind == kind ? object : 0;
}

/* Life. */

static int begin(const char *library)
{
  (void)library;
  alone_comms_begin(&calls);
  return 0;
}

static int end(void)
{
  while (list) alone_free(list);
  alone_comms_end();
  return 0;
}

static void abort_job(native comm, int code)
{
  (void)comm;
  fflush(0);
  _exit(code);
}

static int version(char *text, int capacity)
{
  snprintf(text, (size_t)capacity, "Heddle, alone: a world of one process, without MPI");
  return 0;
}

static double seconds(const struct timespec *time)
{
  return (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
}

static double clock_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(&now);
}

static double clock_tick(void)
{
  struct timespec tick;
  clock_getres(CLOCK_MONOTONIC, &tick);
  return seconds(&tick);
}

/* Errors. */

static const char *const texts[CLASSES] = {
  [C_SUCCESS] = "no error",
  [C_BUFFER] = "invalid buffer",
  [C_COUNT] = "invalid count",
  [C_TYPE] = "invalid type of elements",
  [C_TAG] = "invalid tag",
  [C_COMM] = "invalid communicator",
  [C_RANK] = "invalid rank: this world has one process, whose rank is 0",
  [C_REQUEST] = "invalid request",
  [C_ROOT] = "invalid root: this world has one process, whose rank is 0",
  [C_GROUP] = "invalid group",
  [C_OP] = "invalid operator, or not one for elements of this type",
  [C_TOPOLOGY] = "invalid topology",
  [C_DIMS] = "invalid dimensions",
  [C_ARG] = "invalid argument",
  [C_UNKNOWN] = "unknown error",
  [C_TRUNCATE] = "the message is longer than the receive allows",
  [C_OTHER] = "other error",
  [C_INTERN] = "internal error",
  [C_PENDING] = "the operation is still pending",
  [C_ACCESS] = "permission denied",
  [C_AMODE] = "invalid mode of opening a file",
  [C_BAD_FILE] = "invalid name of a file",
  [C_DUP_DATAREP] = "the data representation is defined already",
  [C_FILE_EXISTS] = "the file exists",
  [C_FILE_IN_USE] = "the file is in use",
  [C_FILE] = "invalid file",
  [C_INFO] = "invalid hints",
  [C_IO] = "input or output failed",
  [C_NOT_SAME] = "the arguments of a collective call differ",
  [C_NO_SPACE] = "not enough space",
  [C_NO_SUCH_FILE] = "no such file",
  [C_PORT] = "invalid port",
  [C_QUOTA] = "quota exceeded",
  [C_READ_ONLY] = "the file, or its file system, is read-only",
  [C_SERVICE] = "invalid name of a service",
  [C_SPAWN] = "a process could not be started",
  [C_UNSUPPORTED_DATAREP] = "unsupported data representation",
  [C_UNSUPPORTED_OPERATION] = "the file does not support this operation",
  [C_NO_MEM] = "out of memory",
  [C_NAME] = "no such name of a service",
};

static int error_class(int code)
{
  if (code >= 0) return code < CLASSES ? code : C_UNKNOWN;
  switch (code) {
    case NO_MEMORY: return C_NO_MEM;
    case UNSUPPORTED: return C_UNSUPPORTED_OPERATION;
    case TOO_LARGE: return C_COUNT;
    case ARGUMENT: return C_ARG;
    default: return C_OTHER;
  }
}

static void error_text(int code, char *text, int capacity)
{
  snprintf(text, (size_t)capacity, "%s", texts[error_class(code)]);
}

/* Other processes, of which there are none. */

static int parent(native *comm)
{
  *comm = 0;
  return 0;
}

static int needs_launcher(const char *what)
{
  heddle_mpi_set_detail("%s: this program runs alone; it needs a launcher of MPI, for instance heddle-mpirun", what);
  return UNSUPPORTED;
}

static int port_open(char *port, int capacity)
{
  (void)port, (void)capacity;
  return needs_launcher("opening a port");
}

static int port_close(const char *port)
{
  (void)port;
  return needs_launcher("closing a port");
}

static int comm_accept(const char *port, native comm, int root, native *made)
{
  (void)port, (void)comm, (void)root, (void)made;
  return needs_launcher("accepting a connection");
}

static int comm_connect(const char *port, native comm, int root, native *made)
{
  (void)port, (void)comm, (void)root, (void)made;
  return needs_launcher("connecting to a port");
}

static int comm_spawn(native comm, int root, const char *program, char *const *arguments, int count, native *made)
{
  (void)comm, (void)root, (void)program, (void)arguments, (void)count, (void)made;
  return needs_launcher("spawning processes");
}

/* The table. */

static void fill(void)
{
  calls.name = "alone";
  calls.begin = begin;
  calls.end = end;
  calls.abort_job = abort_job;
  calls.error_class = error_class;
  calls.error_text = error_text;
  calls.version = version;
  calls.clock = clock_now;
  calls.clock_tick = clock_tick;
  calls.greatest_tag = INT32_MAX;
  calls.parent = parent;
  calls.port_open = port_open;
  calls.port_close = port_close;
  calls.comm_accept = comm_accept;
  calls.comm_connect = comm_connect;
  calls.comm_spawn = comm_spawn;
  alone_offer_messages(&calls);
  alone_offer_collectives(&calls);
  alone_offer_comms(&calls);
  alone_offer_types(&calls);
  alone_offer_files(&calls);
}

const struct heddle_mpi_calls *heddle_mpi_provider_alone(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
  return &calls;
}
