/* The world of one process: what its parts share. heddle_mpi_alone.c says which parts there are. */
#ifndef HEDDLE_MPI_ALONE_H
#define HEDDLE_MPI_ALONE_H
#include "heddle_mpi.h"
#include <stdbool.h>

/* Objects: what a `native` points to. All that are allocated are in one list, so that the end of the world can free
 * what the program has not; those that everybody has are static, and not in the list. */
enum alone_kind { A_COMM, A_GROUP, A_TYPE, A_OP, A_REQUEST, A_MESSAGE, A_FILE };

struct object {
  enum alone_kind kind;
  struct object *before, *after;
};

void *alone_new(enum alone_kind kind, size_t size, int64_t more); /* the first `size` bytes are 0; 0: no memory */
void alone_free(void *object);                                    /* with what belongs to it alone */
void *alone_object(native handle, enum alone_kind kind);          /* 0 if it is none of that kind */

/* What belongs to an object alone, by its kind. */
void alone_clear_comm(struct object *object);
void alone_clear_type(struct object *object);
void alone_clear_request(struct object *object);
void alone_clear_file(struct object *object);

/* Layouts. The bytes of a type are a run: `length` bytes, `count` times, `stride` apart; the bytes of each time lie
 * as `child` says, or without it side by side. A run keeps its child alive. */
struct run {
  int64_t start;  /* in a layout: how many bytes are in the runs before */
  int64_t offset, count, stride, length;
  struct layout *child;
};

struct layout {
  int refs;
  int64_t low;    /* the lowest offset of a byte */
  int64_t high;   /* the offset behind the highest one */
  struct layout *next_dead;
  int64_t runs;
  struct run run[];
};

struct type {
  struct object object;
  int element;    /* of enum heddle_mpi_element; -1 for a derived one */
  struct run run;
  int64_t size;
  /* `upper` is without the padding that alignment asks for; `extent` has it. `fixed`: the program chose them. */
  int64_t lower, upper, extent, align;
  bool fixed;
  bool empty;     /* nothing that would count for the bounds */
};

struct type *alone_type(native handle);
struct type *alone_element(int element);
int64_t alone_low(const struct run *run);

/* A sequence of bytes in memory or in a file. It keeps its layout alive. */
struct region {
  char *base;
  struct run whole;
  int64_t total;
};

int alone_region(const void *data, int64_t count, native type, struct region *region);
struct region alone_bytes(void *data, int64_t bytes);
void alone_region_hold(const struct region *region);
void alone_region_drop(const struct region *region);
int64_t alone_copy(const struct region *from, const struct region *to);

/* Where a walk over a region is: `left` bytes at `at`, then `more` blocks that begin at `next`, then the runs behind
 * `run`, to `last`, of a layout that is at `origin`; then elsewhere. */
struct cursor {
  const struct region *region;
  const struct run *run, *last;
  int64_t origin;
  int64_t position, at, left, next, more, stride, block;
};

struct cursor alone_cursor(const struct region *region, int64_t position);
void alone_advance(struct cursor *cursor, int64_t bytes); /* at most `left` of them */

/* Communicators. The only topologies of one process are circles and dead ends, and edges to itself. */
enum alone_topology { T_NONE, T_CART, T_GRAPH };

struct queued {     /* A message that nobody received yet, or a receive that found none. */
  struct object object;
  struct queued *next;
  int tag;
};

struct queue {
  struct queued *first, **last;
};

struct comm {
  struct object object;
  int refs;         /* its handle, and requests */
  char *name;
  struct queue receives, messages;
  enum alone_topology topology;
  int dimensions;
  int *periodic;    /* of a Cartesian one */
  int edges;        /* of a graph */
};

struct comm *alone_comm(native handle);
void alone_comm_hold(struct comm *comm);
void alone_comm_release(struct comm *comm);
void alone_comms_begin(struct heddle_mpi_calls *calls);
void alone_comms_end(void);

/* A request that is complete already. */
int alone_done(const heddle_mpi_status *status, native *request);
void alone_set_status(native request, const heddle_mpi_status *status); /* before the program knows it */
extern const heddle_mpi_status alone_no_status;

/* Each part puts its functions into the table. */
void alone_offer_messages(struct heddle_mpi_calls *calls);
void alone_offer_collectives(struct heddle_mpi_calls *calls);
void alone_offer_comms(struct heddle_mpi_calls *calls);
void alone_offer_types(struct heddle_mpi_calls *calls);
void alone_offer_files(struct heddle_mpi_calls *calls);
#endif
