/* The uniform table: what every implementation of MPI looks like to Heddle.
 *
 * Three providers fill it: heddle_mpi_openmpi.c and heddle_mpi_mpich.c (both are heddle_mpi_shim.h compiled
 * against one mpi.h; the library itself is opened when the program starts), and heddle_mpi_alone.c, a world of
 * one process that needs no MPI. heddle_mpi.c stands between Haskell and the table: it checks the state and
 * every handle, and tests requests; nothing else calls the table.
 *
 * Conventions of the table:
 * - A `native` is the implementation's handle, widened. 0 is no object, except in what says otherwise.
 * - Counts, displacements and offsets are 64-bit. Sizes are in elements of the type given, or bytes.
 * - A function returns 0, or the implementation's error code, which error_class and error_text explain; codes of
 *   Heddle's own are negative, see enum heddle_mpi_error.
 * - Ranks and tags use the neutral constants below. */
#ifndef HEDDLE_MPI_H
#define HEDDLE_MPI_H
#include <stddef.h>
#include <stdint.h>

typedef intptr_t native;

enum { ANY_SOURCE = -1, ANY_TAG = -1, NO_RANK = -2, ROOT_HERE = -3, UNDEFINED = -4 };

/* Elements that every implementation knows, and operators on them. */
enum heddle_mpi_element {
  E_BYTE, E_INT8, E_INT16, E_INT32, E_INT64, E_WORD8, E_WORD16, E_WORD32, E_WORD64,
  E_FLOAT, E_DOUBLE, E_COMPLEX_FLOAT, E_COMPLEX_DOUBLE, E_CHAR32, E_DOUBLE_INT, ELEMENTS
};
enum heddle_mpi_operator {
  O_SUM, O_PRODUCT, O_MINIMUM, O_MAXIMUM, O_AND, O_OR, O_XOR, O_LOGICAL_AND, O_LOGICAL_OR, O_LOGICAL_XOR,
  O_MINIMUM_AT, O_MAXIMUM_AT, OPERATORS
};

/* Heddle's own errors. */
enum heddle_mpi_error {
  NOT_STARTED = -1,      /* before mpi, or in the world that never began */
  FINISHED = -2,         /* after mpi */
  CLOSED = -3,           /* the handle is closed, or of another kind */
  UNSUPPORTED = -4,      /* this implementation has no such call */
  TOO_LARGE = -5,        /* a count that this call cannot carry */
  NO_MEMORY = -6,
  NO_LIBRARY = -7,       /* the library cannot be opened; error_detail says why */
  NO_PROVIDER = -8,      /* built without the headers of that MPI */
  ARGUMENT = -9,         /* found wrong before MPI was called; error_detail says what */
  THREADS = -10          /* the library grants less than MPI_THREAD_MULTIPLE */
};

/* Classes of errors, in the order of the standard; see heddle_mpi_error_class. */
enum heddle_mpi_class {
  C_SUCCESS, C_BUFFER, C_COUNT, C_TYPE, C_TAG, C_COMM, C_RANK, C_REQUEST, C_ROOT, C_GROUP, C_OP, C_TOPOLOGY,
  C_DIMS, C_ARG, C_UNKNOWN, C_TRUNCATE, C_OTHER, C_INTERN, C_PENDING, C_ACCESS, C_AMODE, C_BAD_FILE, C_DUP_DATAREP,
  C_FILE_EXISTS, C_FILE_IN_USE, C_FILE, C_INFO, C_IO, C_NOT_SAME, C_NO_SPACE, C_NO_SUCH_FILE, C_PORT, C_QUOTA,
  C_READ_ONLY, C_SERVICE, C_SPAWN, C_UNSUPPORTED_DATAREP, C_UNSUPPORTED_OPERATION, C_NO_MEM, C_NAME, CLASSES
};

typedef struct {
  int32_t source, tag;
  int32_t error;     /* the code of this operation */
  int32_t cancelled;
  int64_t bytes;     /* received; -1 if the implementation does not say */
  int64_t lost;      /* after an error: the operation may go on, and nobody will know when it is done */
} heddle_mpi_status;

enum heddle_mpi_mode { M_STANDARD, M_SYNCHRONOUS, M_READY };

enum heddle_mpi_collective {
  K_BARRIER, K_BCAST, K_GATHER, K_GATHERV, K_SCATTER, K_SCATTERV, K_ALLGATHER, K_ALLGATHERV, K_ALLTOALL,
  K_ALLTOALLV, K_REDUCE, K_ALLREDUCE, K_SCAN, K_EXSCAN, K_REDUCE_SCATTER, K_REDUCE_SCATTER_BLOCK,
  K_NEIGHBOR_ALLGATHER, K_NEIGHBOR_ALLTOALL, K_NEIGHBOR_ALLTOALLV, KINDS
};

/* What a collective may need; a field that its kind does not use is 0. The arrays have an entry for
 * each rank and stay until the request is complete. bcast: `receive`, `receives`, `receive_type`. */
struct heddle_mpi_collective_args {
  native comm;
  int32_t kind, root;
  const void *send;
  void *receive;
  int64_t sends, receives;
  native send_type, receive_type;
  const int64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
  native op;
};

/* Where a transfer of a file begins. */
enum heddle_mpi_place { P_AT, P_OWN, P_SHARED };
enum heddle_mpi_file_mode {
  F_READ = 1, F_WRITE = 2, F_CREATE = 4, F_EXCLUSIVE = 8, F_DELETE = 16, F_UNIQUE = 32, F_SEQUENTIAL = 64, F_APPEND = 128
};

struct heddle_mpi_calls {
  const char *name;

  /* Life. begin loads the library and initialises it with MPI_THREAD_MULTIPLE; end finalises. */
  int (*begin)(const char *library);
  int (*end)(void);
  void (*abort_job)(native comm, int code);
  int (*error_class)(int code); /* of enum heddle_mpi_class */
  void (*error_text)(int code, char *text, int capacity);
  int (*version)(char *text, int capacity);
  double (*clock)(void);
  double (*clock_tick)(void);
  native world, self; /* set by begin; so are the next two */
  native element[ELEMENTS];
  native op[OPERATORS];
  int32_t greatest_tag;
  int (*parent)(native *comm); /* 0 if nobody spawned us */

  /* Point to point. */
  int (*isend)(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type, native *request);
  int (*irecv)(native comm, int source, int tag, void *data, int64_t count, native type, native *request);
  int (*improbe)(native comm, int source, int tag, int *found, native *message, heddle_mpi_status *status);
  int (*iprobe)(native comm, int source, int tag, int *found, heddle_mpi_status *status);
  int (*imrecv)(void *data, int64_t count, native type, native *message, native *request);
  int (*send_init)(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type, native *request);
  int (*recv_init)(native comm, int source, int tag, void *data, int64_t count, native type, native *request);
  int (*start)(native *request);

  /* Requests. A request that is complete is set to no_request, but for a persistent one, which lies idle. test_some
   * skips both: it writes the indices of what is complete, and their statuses, with the error of each. */
  native no_request;
  int (*test)(native *request, int *done, heddle_mpi_status *status);
  int (*test_some)(int count, native *requests, int *done, int *indices, heddle_mpi_status *statuses);
  int (*cancel)(native *request);
  int (*request_free)(native *request);

  /* Collectives: with `request` 0 they block. */
  int (*collective)(const struct heddle_mpi_collective_args *args, native *request);

  /* Communicators. */
  int (*comm_size)(native comm, int *size);
  int (*comm_rank)(native comm, int *rank);
  int (*comm_remote_size)(native comm, int *size); /* -1 in an intracommunicator */
  int (*comm_compare)(native a, native b, int *how); /* 0 identical, 1 congruent, 2 similar, 3 unequal */
  int (*comm_dup)(native comm, native *made);
  int (*comm_split)(native comm, int colour, int key, native *made); /* colour UNDEFINED: none */
  int (*comm_split_shared)(native comm, int key, native *made); /* those that share memory */
  int (*comm_create)(native comm, native group, native *made);
  int (*comm_free)(native *comm);
  int (*comm_name)(native comm, char *text, int capacity, int set);
  int (*inter_create)(native local, int leader, native peer, int remote_leader, int tag, native *made);
  int (*inter_merge)(native inter, int high, native *made);

  /* Groups. 0 is the empty group where one is asked for. */
  int (*group_of)(native comm, int remote, native *group);
  int (*group_size)(native group, int *size);
  int (*group_rank)(native group, int *rank); /* UNDEFINED if not in it */
  int (*group_pick)(native group, int count, const int *ranks, int leave_out, native *made);
  int (*group_combine)(native a, native b, int how, native *made); /* 0 union, 1 intersection, 2 difference */
  int (*group_translate)(native from, int count, const int *ranks, native to, int *translated);
  int (*group_free)(native *group);

  /* Topologies. */
  int (*dims_create)(int nodes, int dimensions, int *sizes);
  int (*cart_create)(native comm, int dimensions, const int *sizes, const int *periodic, int reorder, native *made);
  int (*cart_get)(native comm, int capacity, int *dimensions, int *sizes, int *periodic, int *coordinates);
  int (*cart_rank)(native comm, const int *coordinates, int *rank);
  int (*cart_coordinates)(native comm, int rank, int dimensions, int *coordinates);
  int (*cart_shift)(native comm, int dimension, int by, int *source, int *destination);
  int (*cart_sub)(native comm, const int *keep, native *made);
  int (*graph_create)(native comm, int ins, const int *sources, int outs, const int *destinations, int reorder, native *made);
  int (*neighbour_counts)(native comm, int *ins, int *outs); /* of a grid or a graph, as neighbourhood collectives see them */
  int (*graph_neighbours)(native comm, int ins_capacity, int *ins, int *sources, int outs_capacity, int *outs, int *destinations);

  /* Types. */
  int (*type_contiguous)(int64_t count, native type, native *made);
  int (*type_vector)(int64_t count, int64_t length, int64_t stride_bytes, native type, native *made);
  int (*type_indexed)(int64_t count, const int64_t *lengths, const int64_t *offset_bytes, native type, native *made);
  int (*type_subarray)(int dimensions, const int64_t *sizes, const int64_t *part, const int64_t *starts, int column_major,
                       native type, native *made);
  int (*type_resized)(native type, int64_t lower_bytes, int64_t extent_bytes, native *made);
  int (*type_struct)(int count, const int64_t *lengths, const int64_t *offset_bytes, const native *types, native *made);
  int (*type_commit)(native *type);
  int (*type_measure)(native type, int64_t *size, int64_t *lower, int64_t *extent);
  int (*type_reach)(native type, int64_t *low, int64_t *high); /* the bytes that it really has, without padding */
  int (*type_free)(native *type);

  /* Files. A transfer with `request` 0 blocks and fills `status`. */
  int (*file_open)(native comm, const char *path, int mode, const char *const *hints, int hint_count, native *file);
  int (*file_close)(native *file);
  int (*file_delete)(const char *path);
  int (*file_size)(native file, int64_t *bytes);
  int (*file_resize)(native file, int64_t bytes, int preallocate);
  int (*file_sync)(native file);
  int (*file_atomic)(native file, int yes);
  int (*file_view)(native file, int64_t offset_bytes, native element, native view);
  int (*file_seek)(native file, int64_t by, int whence, int shared); /* 0 set, 1 current, 2 end */
  int (*file_tell)(native file, int shared, int64_t *offset);
  int (*file_byte)(native file, int64_t offset, int64_t *byte); /* where an element of the view begins in the file */
  int (*file_transfer)(native file, int write, int place, int together, int64_t offset, void *data, int64_t count,
                       native type, native *request, heddle_mpi_status *status);

  /* Processes. */
  int (*port_open)(char *port, int capacity);
  int (*port_close)(const char *port);
  int (*comm_accept)(const char *port, native comm, int root, native *made);
  int (*comm_connect)(const char *port, native comm, int root, native *made);
  int (*comm_spawn)(native comm, int root, const char *program, char *const *arguments, int count, native *made);
  int (*comm_disconnect)(native *comm);
};

/* Each is 0 where this build has no such provider. */
const struct heddle_mpi_calls *heddle_mpi_provider_openmpi(void);
const struct heddle_mpi_calls *heddle_mpi_provider_mpich(void);
const struct heddle_mpi_calls *heddle_mpi_provider_alone(void);

/* What an error of Heddle's own was about: kept for the thread that met it. */
void heddle_mpi_set_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
