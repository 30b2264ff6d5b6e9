/*
 * The world of one process: communicators, groups and topologies.
 *
 * A communicator is little more than a context of its own for messages. A group has the process or has it not, so
 * that two static groups do.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Communicators. */

static struct comm world, self;

struct comm *alone_comm(native handle)
{
  return alone_object(handle, A_COMM);
}

static void set_up(struct comm *comm)
{
  comm->object.kind = A_COMM;
  comm->refs = 1;
  comm->receives.last = &comm->receives.first;
  comm->messages.last = &comm->messages.first;
}

void alone_comms_begin(struct heddle_mpi_calls *calls)
{
  struct comm *both[] = {&world, &self};
  const char *const names[] = {"MPI_COMM_WORLD", "MPI_COMM_SELF"};
  for (int i = 0; i < 2; i++) {
    *both[i] = (struct comm){0};
    set_up(both[i]);
    both[i]->name = strdup(names[i]); /* Without memory it has no name. */
  }
  calls->world = (native)&world;
  calls->self = (native)&self;
}

void alone_comms_end(void)
{
  alone_clear_comm(&world.object);
  alone_clear_comm(&self.object);
}

void alone_clear_comm(struct object *object)
{
  struct comm *comm = (struct comm *)object;
  free(comm->name);
  free(comm->periodic);
  comm->name = 0;
}

static int make_comm(native *made)
{
  struct comm *comm = alone_new(A_COMM, sizeof *comm, 0);
  if (!comm) return NO_MEMORY;
  set_up(comm);
  *made = (native)comm;
  return 0;
}

void alone_comm_hold(struct comm *comm)
{
  __atomic_add_fetch(&comm->refs, 1, __ATOMIC_RELAXED);
}

/* What nobody received goes with it. Receives keep it alive, so that there are none. */
void alone_comm_release(struct comm *comm)
{
  if (!comm || __atomic_sub_fetch(&comm->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  while (comm->messages.first) {
    struct queued *message = comm->messages.first;
    comm->messages.first = message->next;
    alone_free(message);
  }
  alone_free(comm);
}

static int comm_free(native *handle)
{
  struct comm *comm = alone_comm(*handle);
  if (!comm || comm == &world || comm == &self) return C_COMM;
  alone_comm_release(comm);
  *handle = 0;
  return 0;
}

static int comm_size(native comm, int *size)
{
  if (!alone_comm(comm)) return C_COMM;
  *size = 1;
  return 0;
}

static int comm_rank(native comm, int *rank)
{
  if (!alone_comm(comm)) return C_COMM;
  *rank = 0;
  return 0;
}

static int comm_remote_size(native comm, int *size)
{
  if (!alone_comm(comm)) return C_COMM;
  *size = -1;
  return 0;
}

static int comm_compare(native a, native b, int *how)
{
  if (!alone_comm(a) || !alone_comm(b)) return C_COMM;
  *how = a != b;
  return 0;
}

static int copy_periodic(struct comm *comm, int dimensions, const int *periodic)
{
  comm->periodic = calloc((size_t)dimensions + 1, sizeof *periodic);
  if (!comm->periodic) return NO_MEMORY;
  for (int i = 0; i < dimensions; i++) comm->periodic[i] = periodic[i] != 0;
  return 0;
}

static int make_cart(int dimensions, const int *periodic, native *made)
{
  native fresh;
  int code = make_comm(&fresh);
  if (code) return code;
  struct comm *comm = alone_comm(fresh);
  comm->topology = T_CART;
  comm->dimensions = dimensions;
  code = copy_periodic(comm, dimensions, periodic);
  if (code) return comm_free(&fresh), code;
  *made = fresh;
  return 0;
}

static int make_graph(int edges, native *made)
{
  int code = make_comm(made);
  if (code) return code;
  struct comm *comm = alone_comm(*made);
  comm->topology = T_GRAPH;
  comm->edges = edges;
  return 0;
}

static int comm_dup(native handle, native *made)
{
  const struct comm *comm = alone_comm(handle);
  if (!comm) return C_COMM;
  switch (comm->topology) {
    case T_CART: return make_cart(comm->dimensions, comm->periodic, made);
    case T_GRAPH: return make_graph(comm->edges, made);
    default: return make_comm(made);
  }
}

static int comm_split(native comm, int colour, int key, native *made)
{
  (void)key;
  if (!alone_comm(comm)) return C_COMM;
  if (colour < 0 && colour != UNDEFINED) return C_ARG;
  *made = 0;
  return colour == UNDEFINED ? 0 : make_comm(made);
}

static int comm_split_shared(native comm, int key, native *made)
{
  return comm_split(comm, 0, key, made);
}

static void get_name(const struct comm *comm, char *text, int capacity)
{
  snprintf(text, (size_t)capacity, "%s", comm->name ? comm->name : "");
}

static int set_name(struct comm *comm, const char *text)
{
  char *name = strdup(text);
  if (!name) return NO_MEMORY;
  free(comm->name);
  comm->name = name;
  return 0;
}

static int comm_name(native handle, char *text, int capacity, int set)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct comm *comm = alone_comm(handle);
  int code = 0;
  if (!comm) return C_COMM;
  pthread_mutex_lock(&lock);
  if (set)
    code = set_name(comm, text);
  else
    get_name(comm, text, capacity);
  pthread_mutex_unlock(&lock);
  return code;
}

static int inter_create(native local, int leader, native peer, int remote_leader, int tag, native *made)
{
  (void)leader, (void)peer, (void)remote_leader, (void)tag, (void)made;
  if (!alone_comm(local)) return C_COMM;
  heddle_mpi_set_detail("an intercommunicator: this program runs alone, so that there is no other group");
  return UNSUPPORTED;
}

static int inter_merge(native inter, int high, native *made)
{
  (void)inter, (void)high, (void)made;
  return C_COMM;
}

/* Groups. */

struct group {
  struct object object;
  int size;
};

static struct group groups[] = {
  {.object = {.kind = A_GROUP}, .size = 0},
  {.object = {.kind = A_GROUP}, .size = 1},
};

/* The size of a group; -1 if it is none. */
static int size_of(native handle)
{
  if (!handle) return 0;
  const struct group *group = alone_object(handle, A_GROUP);
  return group ? group->size : -1;
}

static int comm_create(native comm, native group, native *made)
{
  if (!alone_comm(comm)) return C_COMM;
  int size = size_of(group);
  *made = 0;
  return size < 0 ? C_GROUP : size == 0 ? 0 : make_comm(made);
}

static int group_of(native comm, int remote, native *group)
{
  if (!alone_comm(comm) || remote) return C_COMM;
  *group = (native)&groups[1];
  return 0;
}

static int group_size(native group, int *size)
{
  *size = size_of(group);
  return *size < 0 ? C_GROUP : 0;
}

static int group_rank(native group, int *rank)
{
  int size = size_of(group);
  *rank = size == 1 ? 0 : UNDEFINED;
  return size < 0 ? C_GROUP : 0;
}

static int group_pick(native group, int count, const int *ranks, int leave_out, native *made)
{
  int size = size_of(group);
  if (size < 0) return C_GROUP;
  if (count < 0) return C_ARG;
  if (count > size) return C_RANK; /* One of them is not in the group, or there twice. */
  if (count == 1 && ranks[0] != 0) return C_RANK;
  *made = (native)&groups[leave_out ? size - count : count];
  return 0;
}

static int group_combine(native a, native b, int how, native *made)
{
  int in_a = size_of(a), in_b = size_of(b);
  if (in_a < 0 || in_b < 0) return C_GROUP;
  switch (how) {
    case 0: *made = (native)&groups[in_a || in_b]; return 0;
    case 1: *made = (native)&groups[in_a && in_b]; return 0;
    case 2: *made = (native)&groups[in_a && !in_b]; return 0;
    default: return C_ARG;
  }
}

static int group_translate(native from, int count, const int *ranks, native to, int *translated)
{
  int size = size_of(from), there = size_of(to);
  if (size < 0 || there < 0) return C_GROUP;
  if (count < 0) return C_ARG;
  for (int i = 0; i < count; i++)
    if (ranks[i] != NO_RANK && (ranks[i] < 0 || ranks[i] >= size)) return C_RANK;
  for (int i = 0; i < count; i++) translated[i] = ranks[i] == NO_RANK ? NO_RANK : there ? 0 : UNDEFINED;
  return 0;
}

static int group_free(native *group)
{
  if (size_of(*group) < 0) return C_GROUP;
  *group = 0;
  return 0;
}

/* Topologies. */

/* The factors, greatest first, each to the dimension that is smallest so far. */
static void spread(int nodes, int count, int *sizes)
{
  int factors[31], found = 0; /* An int has no more. */
  for (int rest = nodes, factor = 2; rest > 1; rest /= factor) {
    while (rest % factor != 0) factor = factor > rest / factor ? rest : factor + 1;
    factors[found++] = factor;
  }
  for (int i = 0; i < count; i++) sizes[i] = 1;
  while (found > 0) {
    int least = 0;
    for (int i = 1; i < count; i++)
      if (sizes[i] < sizes[least]) least = i;
    sizes[least] *= factors[--found];
  }
}

static int descending(const void *a, const void *b)
{
  int x = *(const int *)a, y = *(const int *)b;
  return (x < y) - (x > y);
}

/* MPI_Dims_create for any number of nodes. */
static int dims_create(int nodes, int dimensions, int *sizes)
{
  int rest = nodes, open = 0;
  if (nodes < 1) return C_ARG;
  if (dimensions < 0) return C_DIMS;
  for (int i = 0; i < dimensions; i++) {
    if (sizes[i] < 0 || (sizes[i] > 0 && rest % sizes[i] != 0)) return C_DIMS;
    if (sizes[i] > 0) rest /= sizes[i]; else open++;
  }
  if (open == 0) return rest == 1 ? 0 : C_DIMS;
  int *chosen = calloc((size_t)open, sizeof *chosen);
  if (!chosen) return NO_MEMORY;
  spread(rest, open, chosen);
  qsort(chosen, (size_t)open, sizeof *chosen, descending);
  for (int i = 0, next = 0; i < dimensions; i++)
    if (sizes[i] == 0) sizes[i] = chosen[next++];
  free(chosen);
  return 0;
}

static int cart_create(native comm, int dimensions, const int *sizes, const int *periodic, int reorder, native *made)
{
  (void)reorder;
  if (!alone_comm(comm)) return C_COMM;
  if (dimensions < 0) return C_DIMS;
  for (int i = 0; i < dimensions; i++)
    if (sizes[i] != 1) return C_DIMS;
  return make_cart(dimensions, periodic, made);
}

/* The communicator, if it is of this topology; or why not. */
static int with_topology(native handle, enum alone_topology topology, struct comm **comm)
{
  *comm = alone_comm(handle);
  if (!*comm) return C_COMM;
  return (*comm)->topology == topology ? 0 : C_TOPOLOGY;
}

static int cart_get(native handle, int capacity, int *dimensions, int *sizes, int *periodic, int *coordinates)
{
  struct comm *comm;
  int code = with_topology(handle, T_CART, &comm);
  if (code) return code;
  *dimensions = comm->dimensions;
  for (int i = 0; i < capacity && i < comm->dimensions; i++) {
    sizes[i] = 1;
    periodic[i] = comm->periodic[i];
    coordinates[i] = 0;
  }
  return 0;
}

static int cart_rank(native handle, const int *coordinates, int *rank)
{
  struct comm *comm;
  int code = with_topology(handle, T_CART, &comm);
  if (code) return code;
  for (int i = 0; i < comm->dimensions; i++)
    if (coordinates[i] != 0 && !comm->periodic[i]) return C_ARG;
  *rank = 0;
  return 0;
}

static int cart_coordinates(native handle, int rank, int dimensions, int *coordinates)
{
  struct comm *comm;
  int code = with_topology(handle, T_CART, &comm);
  if (code) return code;
  if (rank != 0) return C_RANK;
  if (dimensions < comm->dimensions) return C_DIMS;
  for (int i = 0; i < comm->dimensions; i++) coordinates[i] = 0;
  return 0;
}

static int cart_shift(native handle, int dimension, int by, int *source, int *destination)
{
  struct comm *comm;
  int code = with_topology(handle, T_CART, &comm);
  if (code) return code;
  if (dimension < 0 || dimension >= comm->dimensions) return C_DIMS;
  *source = *destination = by == 0 || comm->periodic[dimension] ? 0 : NO_RANK;
  return 0;
}

static int cart_sub(native handle, const int *keep, native *made)
{
  struct comm *comm;
  int code = with_topology(handle, T_CART, &comm), kept = 0;
  if (code) return code;
  int *periodic = calloc((size_t)comm->dimensions + 1, sizeof *periodic);
  if (!periodic) return NO_MEMORY;
  for (int i = 0; i < comm->dimensions; i++)
    if (keep[i]) periodic[kept++] = comm->periodic[i];
  code = make_cart(kept, periodic, made);
  free(periodic);
  return code;
}

static int graph_create(native comm, int ins, const int *sources, int outs, const int *destinations, int reorder,
                        native *made)
{
  (void)reorder;
  if (!alone_comm(comm)) return C_COMM;
  if (ins < 0 || outs < 0) return C_ARG;
  for (int i = 0; i < ins; i++)
    if (sources[i] != 0) return C_RANK;
  for (int i = 0; i < outs; i++)
    if (destinations[i] != 0) return C_RANK;
  if (ins != outs) return C_ARG; /* Every edge from the process is one to it. */
  return make_graph(ins, made);
}

static int neighbour_counts(native handle, int *ins, int *outs)
{
  const struct comm *comm = alone_comm(handle);
  if (!comm) return C_COMM;
  *ins = *outs = comm->topology == T_CART ? 2 * comm->dimensions : comm->edges;
  return comm->topology == T_NONE ? C_TOPOLOGY : 0;
}

static int graph_neighbours(native handle, int ins_capacity, int *ins, int *sources, int outs_capacity, int *outs,
                            int *destinations)
{
  struct comm *comm;
  int code = with_topology(handle, T_GRAPH, &comm);
  if (code) return code;
  *ins = *outs = comm->edges;
  for (int i = 0; i < ins_capacity && i < comm->edges; i++) sources[i] = 0;
  for (int i = 0; i < outs_capacity && i < comm->edges; i++) destinations[i] = 0;
  return 0;
}

static void offer_groups(struct heddle_mpi_calls *calls)
{
  calls->group_of = group_of;
  calls->group_size = group_size;
  calls->group_rank = group_rank;
  calls->group_pick = group_pick;
  calls->group_combine = group_combine;
  calls->group_translate = group_translate;
  calls->group_free = group_free;
}

static void offer_topologies(struct heddle_mpi_calls *calls)
{
  calls->dims_create = dims_create;
  calls->cart_create = cart_create;
  calls->cart_get = cart_get;
  calls->cart_rank = cart_rank;
  calls->cart_coordinates = cart_coordinates;
  calls->cart_shift = cart_shift;
  calls->cart_sub = cart_sub;
  calls->graph_create = graph_create;
  calls->neighbour_counts = neighbour_counts;
  calls->graph_neighbours = graph_neighbours;
}

void alone_offer_comms(struct heddle_mpi_calls *calls)
{
  calls->comm_size = comm_size;
  calls->comm_rank = comm_rank;
  calls->comm_remote_size = comm_remote_size;
  calls->comm_compare = comm_compare;
  calls->comm_dup = comm_dup;
  calls->comm_split = comm_split;
  calls->comm_split_shared = comm_split_shared;
  calls->comm_create = comm_create;
  calls->comm_free = comm_free;
  calls->comm_disconnect = comm_free;
  calls->comm_name = comm_name;
  calls->inter_create = inter_create;
  calls->inter_merge = inter_merge;
  offer_groups(calls);
  offer_topologies(calls);
}
