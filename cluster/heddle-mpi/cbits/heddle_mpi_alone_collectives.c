/*
 * The world of one process: collectives, which copy from what is sent to what is received, at once; and those among
 * neighbours, where the process is its own.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"

typedef const struct heddle_mpi_collective_args args;

/* A buffer of a collective: `count` of a type, at an offset in extents of it. */
struct part {
  const void *data;
  int64_t offset, count;
  native type;
};

static int region_of(const struct part *part, struct region *region)
{
  int64_t bytes;
  const struct type *type = alone_type(part->type);
  if (!type) return C_TYPE;
  if (__builtin_mul_overflow(part->offset, type->extent, &bytes)) return TOO_LARGE;
  return alone_region(part->data ? (const char *)part->data + bytes : 0, part->count, part->type, region);
}

static int copy(struct part send, struct part receive)
{
  struct region from, to;
  int code = region_of(&send, &from);
  if (code) return code;
  code = region_of(&receive, &to);
  if (!code) {
    code = from.total > to.total ? C_TRUNCATE : 0;
    if (!code) alone_copy(&from, &to);
    alone_region_drop(&to);
  }
  alone_region_drop(&from);
  return code;
}

/* In place only the types and counts are looked at. */
static int check_part(struct part part)
{
  return !alone_type(part.type) ? C_TYPE : part.count < 0 ? C_COUNT : 0;
}

static struct part sent(args *a)
{
  return (struct part){a->send, 0, a->sends, a->send_type};
}

static struct part received(args *a)
{
  return (struct part){a->receive, 0, a->receives, a->receive_type};
}

static struct part sent_by_array(args *a, int i)
{
  return (struct part){a->send, a->send_offsets[i], a->send_counts[i], a->send_type};
}

static struct part received_by_array(args *a, int i)
{
  return (struct part){a->receive, a->receive_offsets[i], a->receive_counts[i], a->receive_type};
}

/* Reductions. */

struct op {
  struct object object;
  enum heddle_mpi_operator which;
};

#define OP(name) [name] = {.object = {.kind = A_OP}, .which = name}
static struct op ops[OPERATORS] = {
  OP(O_SUM), OP(O_PRODUCT), OP(O_MINIMUM), OP(O_MAXIMUM), OP(O_AND), OP(O_OR), OP(O_XOR), OP(O_LOGICAL_AND),
  OP(O_LOGICAL_OR), OP(O_LOGICAL_XOR), OP(O_MINIMUM_AT), OP(O_MAXIMUM_AT),
};

/* As MPI has it, so that what goes here goes elsewhere. */
static bool applies(enum heddle_mpi_operator op, int element)
{
  bool at = op == O_MINIMUM_AT || op == O_MAXIMUM_AT;
  switch (element) {
    case -1: return false;
    case E_BYTE: return op == O_AND || op == O_OR || op == O_XOR;
    case E_FLOAT: case E_DOUBLE: return op <= O_MAXIMUM;
    case E_COMPLEX_FLOAT: case E_COMPLEX_DOUBLE: return op <= O_PRODUCT;
    case E_DOUBLE_INT: return at;
    default: return !at;
  }
}

/* A caller may fill the fields of what is sent, or those of what is received. */
static int reduce(args *a)
{
  const struct op *op = alone_object(a->op, A_OP);
  bool by_block = a->kind == K_REDUCE_SCATTER_BLOCK;
  bool of_received = a->receive_type && (!a->send_type || by_block);
  struct part send = sent(a), receive = received(a);
  if (of_received) {
    send.count = receive.count;
    send.type = receive.type;
  }
  if (a->kind == K_REDUCE_SCATTER) send.count = a->receive_counts[0];
  receive.count = send.count;
  receive.type = send.type;
  int code = check_part(send);
  if (code) return code;
  if (!op || !applies(op->which, alone_type(send.type)->element)) return C_OP;
  return a->kind == K_EXSCAN ? 0 : copy(send, receive);
}

/* Neighbours: two in each dimension of a Cartesian topology, which are both the process or both nobody. */

static int neighbours(args *a, int *count)
{
  const struct comm *comm = alone_comm(a->comm);
  *count = comm->topology == T_CART ? 2 * comm->dimensions : comm->edges;
  return comm->topology == T_NONE ? C_TOPOLOGY : 0;
}

static bool is_there(args *a, int neighbour)
{
  const struct comm *comm = alone_comm(a->comm);
  return comm->topology != T_CART || comm->periodic[neighbour / 2];
}

/* What goes down a dimension comes in from above: MPI 4.0, section 8.6, also for a circle of one. */
static int opposite(args *a, int neighbour)
{
  return alone_comm(a->comm)->topology == T_CART ? neighbour ^ 1 : neighbour;
}

static int exchange(args *a, int i)
{
  struct part send = sent(a), receive = received(a);
  switch (a->kind) {
    case K_NEIGHBOR_ALLTOALLV: return copy(sent_by_array(a, opposite(a, i)), received_by_array(a, i));
    case K_NEIGHBOR_ALLTOALL: send.offset = opposite(a, i) * send.count; break;
    default: break;
  }
  receive.offset = i * receive.count;
  return copy(send, receive);
}

static int among_neighbours(args *a)
{
  int count, code = neighbours(a, &count);
  for (int i = 0; !code && i < count; i++)
    if (is_there(a, i)) code = exchange(a, i);
  return code;
}

/* All kinds. */

static bool has_root(int kind)
{
  switch (kind) {
    case K_BCAST: case K_GATHER: case K_GATHERV: case K_SCATTER: case K_SCATTERV: case K_REDUCE: return true;
    default: return false;
  }
}

/* The kinds that move one part to one part. */
static int move(args *a)
{
  bool by_array = a->kind == K_GATHERV || a->kind == K_ALLGATHERV;
  struct part send = a->kind == K_SCATTERV ? sent_by_array(a, 0) : sent(a);
  struct part receive = by_array ? received_by_array(a, 0) : received(a);
  return copy(send, receive);
}

static int alltoallv(args *a)
{
  return copy(sent_by_array(a, 0), received_by_array(a, 0));
}

static int run(args *a)
{
  switch (a->kind) {
    case K_BARRIER: return 0;
    case K_BCAST: return check_part(received(a));
    case K_GATHER: case K_GATHERV: case K_SCATTER: case K_SCATTERV: case K_ALLGATHER: case K_ALLGATHERV:
    case K_ALLTOALL: return move(a);
    case K_ALLTOALLV: return alltoallv(a);
    case K_REDUCE: case K_ALLREDUCE: case K_SCAN: case K_EXSCAN: case K_REDUCE_SCATTER: case K_REDUCE_SCATTER_BLOCK:
      return reduce(a);
    case K_NEIGHBOR_ALLGATHER: case K_NEIGHBOR_ALLTOALL: case K_NEIGHBOR_ALLTOALLV: return among_neighbours(a);
    default: return C_ARG;
  }
}

static int collective(args *a, native *request)
{
  if (!alone_comm(a->comm)) return C_COMM;
  if (has_root(a->kind) && a->root != 0) return C_ROOT;
  int code = run(a);
  return code || !request ? code : alone_done(&alone_no_status, request);
}

void alone_offer_collectives(struct heddle_mpi_calls *calls)
{
  for (int i = 0; i < OPERATORS; i++) calls->op[i] = (native)&ops[i];
  calls->collective = collective;
}
