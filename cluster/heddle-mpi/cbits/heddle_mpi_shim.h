/* The provider, written once against the standard interface of MPI in C. heddle_mpi_openmpi.c and
 * heddle_mpi_mpich.c include it after their mpi.h; all it defines is static. They give PROVIDER_NAME,
 * PROVIDER_TITLE, PROVIDER_LIBRARIES and is_ours().
 *
 * No function of MPI is linked: `begin` opens the library and looks up each of FUNCTIONS, so one program holds
 * both providers and runs where neither is installed. Handles are cast, see TRANSLATION; 0 stands for the null
 * handle. Predefined handles may be addresses in the library, so `begin` reads them once into `known`.
 *
 * A count above INT_MAX: with MPI 4 the function ending in _c takes it (SIZED). Without, it becomes one element
 * of a type made for it (struct amount), except in reductions and parts of unequal size, which answer TOO_LARGE. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Count) == 8 && sizeof(MPI_Aint) == 8, "arrays of int64_t are given to MPI as they are");

/* THE LIBRARY. */

#define FUNCTIONS(X) \
    X(MPI_Abort) X(MPI_Allgather) X(MPI_Allgatherv) X(MPI_Allreduce) X(MPI_Alltoall) X(MPI_Alltoallv) \
    X(MPI_Barrier) X(MPI_Bcast) X(MPI_Cancel) X(MPI_Cart_coords) X(MPI_Cart_create) X(MPI_Cart_get) \
    X(MPI_Cart_rank) X(MPI_Cart_shift) X(MPI_Cart_sub) X(MPI_Cartdim_get) X(MPI_Close_port) X(MPI_Comm_accept) \
    X(MPI_Comm_compare) X(MPI_Comm_connect) X(MPI_Comm_create) X(MPI_Comm_disconnect) X(MPI_Comm_dup) \
    X(MPI_Comm_free) X(MPI_Comm_get_attr) X(MPI_Comm_get_name) X(MPI_Comm_get_parent) X(MPI_Comm_group) \
    X(MPI_Comm_rank) X(MPI_Comm_remote_group) X(MPI_Comm_remote_size) X(MPI_Comm_set_errhandler) \
    X(MPI_Comm_set_name) X(MPI_Comm_size) X(MPI_Comm_spawn) X(MPI_Comm_split) X(MPI_Comm_split_type) \
    X(MPI_Comm_test_inter) X(MPI_Dims_create) X(MPI_Dist_graph_create_adjacent) X(MPI_Dist_graph_neighbors) \
    X(MPI_Dist_graph_neighbors_count) X(MPI_Error_class) X(MPI_Error_string) X(MPI_Exscan) X(MPI_File_close) \
    X(MPI_File_delete) X(MPI_File_get_position) X(MPI_File_get_position_shared) X(MPI_File_get_size) \
    X(MPI_File_get_byte_offset) \
    X(MPI_File_iread) X(MPI_File_iread_all) X(MPI_File_iread_at) X(MPI_File_iread_at_all) X(MPI_File_iread_shared) \
    X(MPI_File_iwrite) X(MPI_File_iwrite_all) X(MPI_File_iwrite_at) X(MPI_File_iwrite_at_all) \
    X(MPI_File_iwrite_shared) X(MPI_File_open) X(MPI_File_preallocate) X(MPI_File_read) X(MPI_File_read_all) \
    X(MPI_File_read_at) X(MPI_File_read_at_all) X(MPI_File_read_ordered) X(MPI_File_read_shared) X(MPI_File_seek) \
    X(MPI_File_seek_shared) X(MPI_File_set_atomicity) X(MPI_File_set_errhandler) X(MPI_File_set_size) \
    X(MPI_File_set_view) X(MPI_File_sync) X(MPI_File_write) X(MPI_File_write_all) X(MPI_File_write_at) \
    X(MPI_File_write_at_all) X(MPI_File_write_ordered) X(MPI_File_write_shared) X(MPI_Finalize) X(MPI_Finalized) \
    X(MPI_Gather) X(MPI_Gatherv) X(MPI_Get_elements_x) X(MPI_Get_library_version) X(MPI_Group_difference) \
    X(MPI_Group_excl) X(MPI_Group_free) X(MPI_Group_incl) X(MPI_Group_intersection) X(MPI_Group_rank) \
    X(MPI_Group_size) X(MPI_Group_translate_ranks) X(MPI_Group_union) X(MPI_Iallgather) X(MPI_Iallgatherv) \
    X(MPI_Iallreduce) X(MPI_Ialltoall) X(MPI_Ialltoallv) X(MPI_Ibarrier) X(MPI_Ibcast) X(MPI_Iexscan) \
    X(MPI_Igather) X(MPI_Igatherv) X(MPI_Improbe) X(MPI_Imrecv) X(MPI_Ineighbor_allgather) \
    X(MPI_Ineighbor_alltoall) X(MPI_Ineighbor_alltoallv) X(MPI_Info_create) X(MPI_Info_free) X(MPI_Info_set) \
    X(MPI_Init_thread) X(MPI_Initialized) X(MPI_Intercomm_create) X(MPI_Intercomm_merge) X(MPI_Iprobe) \
    X(MPI_Irecv) X(MPI_Ireduce) X(MPI_Ireduce_scatter) X(MPI_Ireduce_scatter_block) X(MPI_Irsend) X(MPI_Iscan) \
    X(MPI_Iscatter) X(MPI_Iscatterv) X(MPI_Isend) X(MPI_Issend) X(MPI_Neighbor_allgather) \
    X(MPI_Neighbor_alltoall) X(MPI_Neighbor_alltoallv) X(MPI_Open_port) X(MPI_Query_thread) X(MPI_Recv_init) \
    X(MPI_Reduce) X(MPI_Reduce_scatter) X(MPI_Reduce_scatter_block) X(MPI_Request_free) X(MPI_Rsend_init) \
    X(MPI_Scan) X(MPI_Scatter) X(MPI_Scatterv) X(MPI_Send_init) X(MPI_Ssend_init) X(MPI_Start) X(MPI_Test) \
    X(MPI_Test_cancelled) X(MPI_Testsome) X(MPI_Topo_test) X(MPI_Type_commit) X(MPI_Type_contiguous) \
    X(MPI_Type_create_hindexed) X(MPI_Type_create_hvector) X(MPI_Type_create_resized) X(MPI_Type_create_struct) \
    X(MPI_Type_create_subarray) X(MPI_Type_free) X(MPI_Type_get_extent) X(MPI_Type_get_true_extent) \
    X(MPI_Type_size_x) X(MPI_Wtick) X(MPI_Wtime)

#if MPI_VERSION >= 4
#define WIDE_FUNCTIONS(X) \
    X(MPI_Allgather_c) X(MPI_Allgatherv_c) X(MPI_Allreduce_c) X(MPI_Alltoall_c) X(MPI_Alltoallv_c) \
    X(MPI_Bcast_c) X(MPI_Exscan_c) X(MPI_Gather_c) X(MPI_Gatherv_c) X(MPI_Iallgather_c) X(MPI_Iallgatherv_c) \
    X(MPI_Iallreduce_c) X(MPI_Ialltoall_c) X(MPI_Ialltoallv_c) X(MPI_Ibcast_c) X(MPI_Iexscan_c) X(MPI_Igather_c) \
    X(MPI_Igatherv_c) X(MPI_Imrecv_c) X(MPI_Ineighbor_allgather_c) X(MPI_Ineighbor_alltoall_c) \
    X(MPI_Ineighbor_alltoallv_c) X(MPI_Irecv_c) X(MPI_Ireduce_c) X(MPI_Ireduce_scatter_block_c) \
    X(MPI_Ireduce_scatter_c) X(MPI_Irsend_c) X(MPI_Iscan_c) X(MPI_Iscatter_c) X(MPI_Iscatterv_c) X(MPI_Isend_c) \
    X(MPI_Issend_c) X(MPI_Neighbor_allgather_c) X(MPI_Neighbor_alltoall_c) X(MPI_Neighbor_alltoallv_c) \
    X(MPI_Recv_init_c) X(MPI_Reduce_c) X(MPI_Reduce_scatter_block_c) X(MPI_Reduce_scatter_c) X(MPI_Rsend_init_c) \
    X(MPI_Scan_c) X(MPI_Scatter_c) X(MPI_Scatterv_c) X(MPI_Send_init_c) X(MPI_Ssend_init_c) \
    X(MPI_Type_create_hindexed_c) X(MPI_Type_create_hvector_c) X(MPI_Type_create_struct_c) \
    X(MPI_Type_create_subarray_c)
/* Calls `name`, or what takes counts of 64 bits; callers see to it that `large` is set only if has_wide is. */
#define SIZED(name, large, ...) ((large) ? mpi.name##_c(__VA_ARGS__) : mpi.name(__VA_ARGS__))
#else
#define WIDE_FUNCTIONS(X)
#define SIZED(name, large, ...) ((void)(large), mpi.name(__VA_ARGS__))
#endif

/* MPI 4.1 deprecates what MPI 3 has for counts of 64 bits. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct {
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
    WIDE_FUNCTIONS(MEMBER)
#undef MEMBER
} mpi;

static struct {
    MPI_Comm no_comm, world, self;
    MPI_Group no_group, empty_group;
    MPI_Datatype no_type, byte;
    MPI_Op no_op;
    MPI_Request no_request;
    MPI_Message no_message, from_nobody;
    MPI_File no_file;
    MPI_Info no_info;
    MPI_Errhandler return_errors;
    int *unweighted;
} known;

static void *library;
static const char *lacking;  /* A predefined object that is not there. */
static int has_wide;         /* The library has all of WIDE_FUNCTIONS. */
static int hosted;           /* MPI was running before Heddle, and goes on after it. */
static struct heddle_mpi_calls calls;

/* What a missing function is replaced by, so that no call need look. Its arguments are the caller's to clean up, and
 * it reads none, in all the calling conventions in which MPI is used. */
static int unsupported(void) { return UNSUPPORTED; }

static void look_up(void *slot, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) found = (void *)unsupported;
    memcpy(slot, &found, sizeof found);
}

static inline void look_up_wide(void *slot, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) has_wide = 0;
    memcpy(slot, &found, sizeof found);
}

static void look_up_all(void)
{
#define LOOK_UP(name) look_up(&mpi.name, #name);
#define LOOK_UP_WIDE(name) look_up_wide(&mpi.name, #name);
    has_wide = MPI_VERSION >= 4;
    FUNCTIONS(LOOK_UP)
    WIDE_FUNCTIONS(LOOK_UP_WIDE)
#undef LOOK_UP
#undef LOOK_UP_WIDE
}

static int not_this(void *opened, const char *path)
{
    char version[16384] = ""; /* MPICH writes up to 8192 bytes, whatever the header of Open MPI says. */
    int length = 0;
    __typeof__(&MPI_Get_library_version) get_version;
    void *found = dlsym(opened, "MPI_Get_library_version");
    memcpy(&get_version, &found, sizeof found);
    if (found) get_version(version, &length);
    if (found && is_ours(opened, version)) return 0;
    version[strcspn(version, "\r\n")] = 0;
    heddle_mpi_set_detail("%s is not " PROVIDER_TITLE ", but %s", path, *version ? version : "no library of MPI");
    return NO_LIBRARY;
}

static int open_one(const char *path)
{
    /* Looked at before its names become global: another MPI may yet be opened by this process. */
    void *probe = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!probe) {
        heddle_mpi_set_detail("%s", dlerror());
        return NO_LIBRARY;
    }
    int code = not_this(probe, path);
    if (code == 0) {
        /* Global, since the library opens components of its own that expect its names. */
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            heddle_mpi_set_detail("%s", dlerror());
            code = NO_LIBRARY;
        }
    }
    dlclose(probe);
    return code;
}

static int open_library(const char *path)
{
    static const char *const names[] = { PROVIDER_LIBRARIES };
    int code = NO_LIBRARY;
    if (path && *path) return open_one(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((code = open_one(names[i])) == 0) return 0;
    return code;
}

static int *find_unweighted(void)
{
#ifdef MPI_UNWEIGHTED
    return MPI_UNWEIGHTED;
#else
    /* In MPICH it is a variable. */
    int **found = dlsym(library, "MPI_UNWEIGHTED");
    if (!found) lacking = "MPI_UNWEIGHTED";
    return found ? *found : 0;
#endif
}

static void find_elements(void)
{
    native *element = calls.element;
    element[E_BYTE] = (native)MPI_BYTE;
    element[E_INT8] = (native)MPI_INT8_T;
    element[E_INT16] = (native)MPI_INT16_T;
    element[E_INT32] = (native)MPI_INT32_T;
    element[E_INT64] = (native)MPI_INT64_T;
    element[E_WORD8] = (native)MPI_UINT8_T;
    element[E_WORD16] = (native)MPI_UINT16_T;
    element[E_WORD32] = (native)MPI_UINT32_T;
    element[E_WORD64] = (native)MPI_UINT64_T;
    element[E_FLOAT] = (native)MPI_FLOAT;
    element[E_DOUBLE] = (native)MPI_DOUBLE;
    element[E_COMPLEX_FLOAT] = (native)MPI_C_FLOAT_COMPLEX;
    element[E_COMPLEX_DOUBLE] = (native)MPI_C_DOUBLE_COMPLEX;
    element[E_CHAR32] = (native)MPI_UINT32_T;
    element[E_DOUBLE_INT] = (native)MPI_DOUBLE_INT;
}

static void find_operators(void)
{
    native *op = calls.op;
    op[O_SUM] = (native)MPI_SUM;
    op[O_PRODUCT] = (native)MPI_PROD;
    op[O_MINIMUM] = (native)MPI_MIN;
    op[O_MAXIMUM] = (native)MPI_MAX;
    op[O_AND] = (native)MPI_BAND;
    op[O_OR] = (native)MPI_BOR;
    op[O_XOR] = (native)MPI_BXOR;
    op[O_LOGICAL_AND] = (native)MPI_LAND;
    op[O_LOGICAL_OR] = (native)MPI_LOR;
    op[O_LOGICAL_XOR] = (native)MPI_LXOR;
    op[O_MINIMUM_AT] = (native)MPI_MINLOC;
    op[O_MAXIMUM_AT] = (native)MPI_MAXLOC;
}

static int find_objects(void)
{
    lacking = 0;
    known.no_comm = MPI_COMM_NULL;
    known.world = MPI_COMM_WORLD;
    known.self = MPI_COMM_SELF;
    known.no_group = MPI_GROUP_NULL;
    known.empty_group = MPI_GROUP_EMPTY;
    known.no_type = MPI_DATATYPE_NULL;
    known.byte = MPI_BYTE;
    known.no_op = MPI_OP_NULL;
    known.no_request = MPI_REQUEST_NULL;
    known.no_message = MPI_MESSAGE_NULL;
    known.from_nobody = MPI_MESSAGE_NO_PROC;
    known.no_file = MPI_FILE_NULL;
    known.no_info = MPI_INFO_NULL;
    known.return_errors = MPI_ERRORS_RETURN;
    known.unweighted = find_unweighted();
    calls.world = (native)known.world;
    calls.self = (native)known.self;
    calls.no_request = (native)known.no_request;
    find_elements();
    find_operators();
    if (!lacking) return 0;
    heddle_mpi_set_detail("this " PROVIDER_TITLE " lacks %s", lacking);
    return NO_LIBRARY;
}

/* TRANSLATION. An int of MPICH is widened with its sign, for the handles of what is made have the upper bit set. */

#define HANDLE(kind, type, none) \
    static inline type to_##kind(native handle) { return handle ? (type)handle : known.none; } \
    static inline native from_##kind(type handle) { return handle == known.none ? 0 : (native)handle; }
HANDLE(comm, MPI_Comm, no_comm)
HANDLE(type, MPI_Datatype, no_type)
HANDLE(op, MPI_Op, no_op)
HANDLE(message, MPI_Message, no_message)
HANDLE(file, MPI_File, no_file)
#undef HANDLE

static inline MPI_Group to_group(native handle) { return handle ? (MPI_Group)handle : known.empty_group; }
static inline native from_group(MPI_Group handle)
{
    return handle == known.no_group || handle == known.empty_group ? 0 : (native)handle;
}

/* A rank that is none of MPI's is made one that MPI is sure to refuse. */
static inline int to_rank(int rank)
{
    if (__builtin_expect(rank >= 0, 1)) return rank;
    switch (rank) {
    case ANY_SOURCE: return MPI_ANY_SOURCE;
    case NO_RANK: return MPI_PROC_NULL;
    case ROOT_HERE: return MPI_ROOT;
    default: return INT_MIN;
    }
}

static inline int from_rank(int rank)
{
    if (__builtin_expect(rank >= 0, 1)) return rank;
    switch (rank) {
    case MPI_ANY_SOURCE: return ANY_SOURCE;
    case MPI_PROC_NULL: return NO_RANK;
    case MPI_ROOT: return ROOT_HERE;
    case MPI_UNDEFINED: return UNDEFINED;
    default: return rank;
    }
}

static inline int to_tag(int tag) { return tag == ANY_TAG ? MPI_ANY_TAG : tag; }
static inline int from_tag(int tag) { return tag == MPI_ANY_TAG ? ANY_TAG : tag; }

/* The fields of a status that the standard has functions for: both implementations' headers promise them to programs
 * that are compiled already, and calling the functions takes as long as all else here. */
#if defined(OPEN_MPI)
static inline int64_t bytes_in(const MPI_Status *status) { return (int64_t)status->_ucount; }
static inline int was_cancelled(const MPI_Status *status) { return status->_cancelled; }
#else
static inline int64_t bytes_in(const MPI_Status *status)
{
    return ((int64_t)(status->count_hi_and_cancelled >> 1) << 32) | (uint32_t)status->count_lo;
}
static inline int was_cancelled(const MPI_Status *status) { return status->count_hi_and_cancelled & 1; }
#endif

static inline void give_status(const MPI_Status *from, int error, heddle_mpi_status *to)
{
    if (!to) return;
    *to = (heddle_mpi_status) {
        .source = from_rank(from->MPI_SOURCE), .tag = from_tag(from->MPI_TAG), .error = error,
        .cancelled = was_cancelled(from), .bytes = bytes_in(from)
    };
}

/* A new communicator's errors are returned, whatever those of its parent are. */
static int give_comm(int code, MPI_Comm comm, native *made)
{
    *made = 0;
    if (code) return code;
    if (comm != known.no_comm) code = mpi.MPI_Comm_set_errhandler(comm, known.return_errors);
    *made = from_comm(comm);
    return code;
}

static inline int give_request(int code, MPI_Request request, native *made)
{
    *made = code ? calls.no_request : (native)request;
    return code;
}

static int give_type(int code, MPI_Datatype type, native *made)
{
    *made = code ? 0 : from_type(type);
    return code;
}

static int give_group(int code, MPI_Group group, native *made)
{
    *made = code ? 0 : from_group(group);
    return code;
}

static int give_text(char *text, int capacity, const char *from, const char *what)
{
    if (snprintf(text, (size_t)capacity, "%s", from) < capacity) return 0;
    heddle_mpi_set_detail("%s takes more than %d bytes", what, capacity);
    return ARGUMENT;
}

/* COUNTS. */

static int too_large(const char *what)
{
    heddle_mpi_set_detail("%s above %d, which this MPI cannot take", what, INT_MAX);
    return TOO_LARGE;
}

/* Elements to be moved. */
struct amount {
    MPI_Datatype type;
    int64_t count;
    int large;  /* The count is for a function that ends in _c. */
    int made;   /* The type was made here, and is freed after the call: MPI keeps it as long as it is in use. */
};

/* `count` elements in a row as one type: blocks, because each count is an int, and what is left. */
static int row_of(int64_t count, MPI_Datatype element, MPI_Datatype *made)
{
    enum { BLOCK = 1 << 30 };
    MPI_Datatype block, parts;
    MPI_Aint lower, extent;
    int64_t blocks = count / BLOCK;
    if (blocks > INT_MAX) return too_large("blocks of 2^30 elements");
    int code = mpi.MPI_Type_get_extent(element, &lower, &extent);
    if (code) return code;
    if ((code = mpi.MPI_Type_contiguous(BLOCK, element, &block))) return code;
    code = mpi.MPI_Type_create_struct(2, (int[]) { (int)blocks, (int)(count % BLOCK) },
                                      (MPI_Aint[]) { 0, blocks * BLOCK * extent },
                                      (MPI_Datatype[]) { block, element }, &parts);
    mpi.MPI_Type_free(&block);
    if (code) return code;
    /* A struct may be rounded up to where its next would begin. */
    code = mpi.MPI_Type_create_resized(parts, lower, count * extent, made);
    mpi.MPI_Type_free(&parts);
    return code;
}

static int fit_row(struct amount *amount)
{
    MPI_Datatype row;
    if (amount->count < 0) return MPI_ERR_COUNT;
    int code = row_of(amount->count, amount->type, &row);
    if (code) return code;
    if ((code = mpi.MPI_Type_commit(&row))) {
        mpi.MPI_Type_free(&row);
        return code;
    }
    *amount = (struct amount) { .type = row, .count = 1, .made = 1 };
    return 0;
}

static int fit_large(struct amount *amount)
{
    if (!has_wide || amount->count < 0) return fit_row(amount);
    amount->large = 1;
    return 0;
}

static inline int fit(int64_t count, native type, struct amount *amount)
{
    *amount = (struct amount) { .type = to_type(type), .count = count };
    return __builtin_expect((uint64_t)count <= INT_MAX, 1) ? 0 : fit_large(amount);
}

static inline void let_go(struct amount *amount)
{
    if (__builtin_expect(amount->made, 0)) mpi.MPI_Type_free(&amount->type);
}

static int narrow(int64_t count, const int64_t *from, int *to)
{
    for (int64_t i = 0; i < count; i++) {
        if (from[i] != (int)from[i]) return TOO_LARGE;
        to[i] = (int)from[i];
    }
    return 0;
}

/* Ranks as MPI has them; to be freed. */
static int *translated_ranks(int count, const int *ranks)
{
    int *made = malloc(sizeof *made * ((size_t)count + 1));
    for (int i = 0; made && i < count; i++) made[i] = to_rank(ranks[i]);
    return made;
}

/* LIFE. */

static int start_library(void)
{
    int over = 0, granted = 0;
    mpi.MPI_Finalized(&over);
    if (over) {
        heddle_mpi_set_detail("this process has finalised " PROVIDER_TITLE " before");
        return FINISHED;
    }
    mpi.MPI_Initialized(&hosted);
    int code = hosted ? mpi.MPI_Query_thread(&granted) : mpi.MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &granted);
    if (code) return code;
    if (granted >= MPI_THREAD_MULTIPLE) return 0;
    if (!hosted) mpi.MPI_Finalize();
    heddle_mpi_set_detail("MPI_THREAD_MULTIPLE is needed, level %d is granted", granted);
    return THREADS;
}

static int begin(const char *path)
{
    int *greatest = 0, found = 0, code = open_library(path);
    if (code) return code;
    look_up_all();
    if ((code = find_objects()) || (code = start_library())) return code;
    mpi.MPI_Comm_set_errhandler(known.world, known.return_errors);
    mpi.MPI_Comm_set_errhandler(known.self, known.return_errors);
    mpi.MPI_File_set_errhandler(known.no_file, known.return_errors);
    calls.greatest_tag = 32767; /* The least that the standard allows. */
    code = mpi.MPI_Comm_get_attr(known.world, MPI_TAG_UB, &greatest, &found);
    if (code == 0 && found) calls.greatest_tag = *greatest;
    return code;
}

static int end(void) { return hosted ? 0 : mpi.MPI_Finalize(); }

static void abort_job(native comm, int code)
{
    mpi.MPI_Abort(comm ? (MPI_Comm)comm : known.world, code);
    _Exit(code ? code : 1);
}

static int error_class(int code)
{
    int class;
    if (mpi.MPI_Error_class(code, &class)) return C_OTHER;
    switch (class) {
    case MPI_SUCCESS: return C_SUCCESS;
    case MPI_ERR_BUFFER: return C_BUFFER;
    case MPI_ERR_COUNT: return C_COUNT;
    case MPI_ERR_TYPE: return C_TYPE;
    case MPI_ERR_TAG: return C_TAG;
    case MPI_ERR_COMM: return C_COMM;
    case MPI_ERR_RANK: return C_RANK;
    case MPI_ERR_REQUEST: return C_REQUEST;
    case MPI_ERR_ROOT: return C_ROOT;
    case MPI_ERR_GROUP: return C_GROUP;
    case MPI_ERR_OP: return C_OP;
    case MPI_ERR_TOPOLOGY: return C_TOPOLOGY;
    case MPI_ERR_DIMS: return C_DIMS;
    case MPI_ERR_ARG: return C_ARG;
    case MPI_ERR_UNKNOWN: return C_UNKNOWN;
    case MPI_ERR_TRUNCATE: return C_TRUNCATE;
    case MPI_ERR_INTERN: return C_INTERN;
    case MPI_ERR_PENDING: return C_PENDING;
    case MPI_ERR_ACCESS: return C_ACCESS;
    case MPI_ERR_AMODE: return C_AMODE;
    case MPI_ERR_BAD_FILE: return C_BAD_FILE;
    case MPI_ERR_DUP_DATAREP: return C_DUP_DATAREP;
    case MPI_ERR_FILE_EXISTS: return C_FILE_EXISTS;
    case MPI_ERR_FILE_IN_USE: return C_FILE_IN_USE;
    case MPI_ERR_FILE: return C_FILE;
    case MPI_ERR_INFO: return C_INFO;
    case MPI_ERR_IO: return C_IO;
    case MPI_ERR_NOT_SAME: return C_NOT_SAME;
    case MPI_ERR_NO_SPACE: return C_NO_SPACE;
    case MPI_ERR_NO_SUCH_FILE: return C_NO_SUCH_FILE;
    case MPI_ERR_PORT: return C_PORT;
    case MPI_ERR_QUOTA: return C_QUOTA;
    case MPI_ERR_READ_ONLY: return C_READ_ONLY;
    case MPI_ERR_SERVICE: return C_SERVICE;
    case MPI_ERR_SPAWN: return C_SPAWN;
    case MPI_ERR_UNSUPPORTED_DATAREP: return C_UNSUPPORTED_DATAREP;
    case MPI_ERR_UNSUPPORTED_OPERATION: return C_UNSUPPORTED_OPERATION;
    case MPI_ERR_NO_MEM: return C_NO_MEM;
    case MPI_ERR_NAME: return C_NAME;
    default: return C_OTHER;
    }
}

static void error_text(int code, char *text, int capacity)
{
    char full[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    if (mpi.MPI_Error_string(code, full, &length)) snprintf(full, sizeof full, "error %d of " PROVIDER_TITLE, code);
    snprintf(text, (size_t)capacity, "%s", full);
}

static int version(char *text, int capacity)
{
    char full[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length, code = mpi.MPI_Get_library_version(full, &length);
    snprintf(text, (size_t)capacity, "%s", full);
    return code;
}

static double clock_now(void) { return mpi.MPI_Wtime(); }
static double clock_tick(void) { return mpi.MPI_Wtick(); }

static int parent(native *comm)
{
    MPI_Comm made;
    int code = mpi.MPI_Comm_get_parent(&made);
    return give_comm(code, made, comm);
}

/* POINT TO POINT. */

static int isend(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type,
                 native *request)
{
    MPI_Comm to = to_comm(comm);
    MPI_Request made;
    struct amount a;
    int code = fit(count, type, &a), dest = to_rank(rank);
    if (code) return code;
    if (mode == M_STANDARD) code = SIZED(MPI_Isend, a.large, data, a.count, a.type, dest, tag, to, &made);
    else if (mode == M_SYNCHRONOUS) code = SIZED(MPI_Issend, a.large, data, a.count, a.type, dest, tag, to, &made);
    else code = SIZED(MPI_Irsend, a.large, data, a.count, a.type, dest, tag, to, &made);
    let_go(&a);
    return give_request(code, made, request);
}

/* From nobody: MPICH 4.0 gives such an irecv the status of a message from rank 0, but this one the right status. */
static int receive_nothing(void *data, native type, native *request)
{
    MPI_Message nothing = known.from_nobody;
    MPI_Request made;
    int code = mpi.MPI_Imrecv(data, 0, to_type(type), &nothing, &made);
    return give_request(code, made, request);
}

static int irecv(native comm, int source, int tag, void *data, int64_t count, native type, native *request)
{
    MPI_Request made;
    struct amount a;
    if (__builtin_expect(source == NO_RANK, 0)) return receive_nothing(data, type, request);
    int code = fit(count, type, &a);
    if (code) return code;
    code = SIZED(MPI_Irecv, a.large, data, a.count, a.type, to_rank(source), to_tag(tag), to_comm(comm), &made);
    let_go(&a);
    return give_request(code, made, request);
}

static int improbe(native comm, int source, int tag, int *found, native *message, heddle_mpi_status *status)
{
    MPI_Message met = known.no_message;
    MPI_Status got;
    int flag = 0, code = mpi.MPI_Improbe(to_rank(source), to_tag(tag), to_comm(comm), &flag, &met, &got);
    *found = code == 0 && flag;
    *message = *found ? from_message(met) : 0;
    if (*found) give_status(&got, 0, status);
    return code;
}

static int iprobe(native comm, int source, int tag, int *found, heddle_mpi_status *status)
{
    MPI_Status got;
    int flag = 0, code = mpi.MPI_Iprobe(to_rank(source), to_tag(tag), to_comm(comm), &flag, &got);
    *found = code == 0 && flag;
    if (*found) give_status(&got, 0, status);
    return code;
}

static int imrecv(void *data, int64_t count, native type, native *message, native *request)
{
    MPI_Message met = to_message(*message);
    MPI_Request made;
    struct amount a;
    int code = fit(count, type, &a);
    if (code) return code;
    code = SIZED(MPI_Imrecv, a.large, data, a.count, a.type, &met, &made);
    let_go(&a);
    *message = from_message(met);
    return give_request(code, made, request);
}

static int send_init(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type,
                     native *request)
{
    MPI_Comm to = to_comm(comm);
    MPI_Request made;
    struct amount a;
    int code = fit(count, type, &a), dest = to_rank(rank);
    if (code) return code;
    if (mode == M_STANDARD) code = SIZED(MPI_Send_init, a.large, data, a.count, a.type, dest, tag, to, &made);
    else if (mode == M_SYNCHRONOUS) code = SIZED(MPI_Ssend_init, a.large, data, a.count, a.type, dest, tag, to, &made);
    else code = SIZED(MPI_Rsend_init, a.large, data, a.count, a.type, dest, tag, to, &made);
    let_go(&a);
    return give_request(code, made, request);
}

static int recv_init(native comm, int source, int tag, void *data, int64_t count, native type, native *request)
{
    MPI_Request made;
    struct amount a;
    int code = fit(count, type, &a);
    if (code) return code;
    code = SIZED(MPI_Recv_init, a.large, data, a.count, a.type, to_rank(source), to_tag(tag), to_comm(comm), &made);
    let_go(&a);
    return give_request(code, made, request);
}

static int start(native *request)
{
    MPI_Request handle = (MPI_Request)*request;
    int code = mpi.MPI_Start(&handle);
    *request = (native)handle;
    return code;
}

/* What is kept for requests: MPI reads the ints that counts and offsets became until the collective is complete. With
 * MPI 4 the caller's arrays go to it as they are, but for allgatherv.
 *
 * A handle may be in the list twice, for MPI uses it anew once its request is complete, and another thread may start
 * the next before this one is out of the list. The list is in the order of the starts, so what is first has ended. */
enum { SEND_COUNTS, SEND_OFFSETS, RECEIVE_COUNTS, RECEIVE_OFFSETS, ARRAYS };

struct kept {
    struct kept *next;
    native request;
    int numbers[];
};

static struct kept *oldest, **newest = &oldest;
static atomic_int kept_count;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(struct kept *kept, native request)
{
    kept->next = 0;
    kept->request = request;
    pthread_mutex_lock(&kept_lock);
    *newest = kept;
    newest = &kept->next;
    atomic_fetch_add(&kept_count, 1);
    pthread_mutex_unlock(&kept_lock);
}

static void drop(native request)
{
    pthread_mutex_lock(&kept_lock);
    struct kept **at = &oldest, *found;
    while ((found = *at) && found->request != request) at = &found->next;
    if (found) {
        *at = found->next;
        if (newest == &found->next) newest = at;
        atomic_fetch_sub(&kept_count, 1);
    }
    pthread_mutex_unlock(&kept_lock);
    free(found);
}

static inline void completed(native request)
{
    if (__builtin_expect(atomic_load_explicit(&kept_count, memory_order_relaxed) > 0, 0)) drop(request);
}

/* REQUESTS. */

static int test(native *request, int *done, heddle_mpi_status *status)
{
    MPI_Request handle = (MPI_Request)*request;
    MPI_Status got;
    int flag = 0, code = mpi.MPI_Test(&handle, &flag, &got);
    *done = 0;
    if (__builtin_expect(code != 0, 0)) {
        /* The operation failed if that ended it, else the test. */
        if (!flag && (native)handle == *request) return code;
        flag = 1;
    }
    if (!flag) return 0;
    *done = 1;
    completed(*request);
    *request = (native)handle;
    give_status(&got, code, status);
    return 0;
}

#if defined(OPEN_MPI)

/* One after the other: after a failure, Open MPI's MPI_Testsome frees each request whose error is set, and 4.1 does
 * not clear the error of a send that begins. */
static int test_some(int count, native *requests, int *done, int *indices, heddle_mpi_status *statuses)
{
    int active = 0, some = 0;
    for (int i = 0; i < count; i++) {
        if (requests[i] == calls.no_request) continue;
        int complete = 0;
        int code = test(&requests[i], &complete, &statuses[some]);
        active++;
        if (code) {
            statuses[some] = (heddle_mpi_status) {.source = ANY_SOURCE, .tag = ANY_TAG, .error = code, .bytes = -1, .lost = 1};
            complete = 1;
        }
        if (complete) indices[some++] = i;
    }
    *done = active ? some : -1;
    return 0;
}

#else

static int grow(int count, MPI_Request **handles, MPI_Status **got, int *room)
{
    int size = count < 64 ? 64 : count + count / 2;
    MPI_Request *more = realloc(*handles, sizeof *more * (size_t)size);
    if (more) *handles = more;
    MPI_Status *statuses = realloc(*got, sizeof *statuses * (size_t)size);
    if (statuses) *got = statuses;
    if (!more || !statuses) return NO_MEMORY;
    *room = size;
    return 0;
}

/* On a copy of the handles, which are ints. */
static int test_some(int count, native *requests, int *done, int *indices, heddle_mpi_status *statuses)
{
    static MPI_Request *handles;
    static MPI_Status *got;
    static int room;
    int code, some = 0;
    *done = 0;
    if (room > 4096 && count < room / 4) {
        free(handles);
        free(got);
        handles = 0;
        got = 0;
        room = 0;
    }
    if (count > room && (code = grow(count, &handles, &got, &room))) return code;
    for (int i = 0; i < count; i++) handles[i] = (MPI_Request)requests[i];
    code = mpi.MPI_Testsome(count, handles, &some, indices, got);
    if (__builtin_expect(code != 0, 0)) {
        int class = code;
        mpi.MPI_Error_class(code, &class);
        if (class != MPI_ERR_IN_STATUS) return code;
    }
    if (some == MPI_UNDEFINED) {
        *done = -1;
        return 0;
    }
    for (int k = 0; k < some; k++) {
        int i = indices[k];
        completed(requests[i]);
        requests[i] = (native)handles[i];
        give_status(&got[k], code ? got[k].MPI_ERROR : 0, &statuses[k]);
    }
    *done = some;
    return 0;
}

#endif

static int cancel(native *request)
{
    MPI_Request handle = (MPI_Request)*request;
    return mpi.MPI_Cancel(&handle);
}

/* What is kept for it stays: nothing tells any more when the operation ends. (MPI forbids to free a collective.) */
static int request_free(native *request)
{
    MPI_Request handle = (MPI_Request)*request;
    int code = mpi.MPI_Request_free(&handle);
    *request = (native)handle;
    return code;
}

/* COLLECTIVES. */

/* In functions that have `request`, `made` and `large`. */
#define COLLECT(blocking, other, ...) \
    (request ? SIZED(MPI_##other, large, __VA_ARGS__, &made) : SIZED(MPI_##blocking, large, __VA_ARGS__))

static int give_collective(int code, MPI_Request made, native *request)
{
    return request ? give_request(code, made, request) : code;
}

/* Each process's part is as large as the others'. */
static int collect_equal(const struct heddle_mpi_collective_args *args, native *request)
{
    MPI_Comm comm = to_comm(args->comm);
    MPI_Request made = known.no_request;
    const void *send = args->send;
    struct amount s, r;
    int root = to_rank(args->root), code = fit(args->sends, args->send_type, &s);
    if (code) return code;
    if ((code = fit(args->receives, args->receive_type, &r))) {
        let_go(&s);
        return code;
    }
    int large = s.large | r.large;
    switch (args->kind) {
    case K_BARRIER:
        code = request ? mpi.MPI_Ibarrier(comm, &made) : mpi.MPI_Barrier(comm);
        break;
    case K_BCAST:
        code = COLLECT(Bcast, Ibcast, args->receive, r.count, r.type, root, comm);
        break;
    case K_GATHER:
        code = COLLECT(Gather, Igather, send, s.count, s.type, args->receive, r.count, r.type, root, comm);
        break;
    case K_SCATTER:
        code = COLLECT(Scatter, Iscatter, args->send, s.count, s.type, args->receive,
                       r.count, r.type, root, comm);
        break;
    case K_ALLGATHER:
        code = COLLECT(Allgather, Iallgather, send, s.count, s.type, args->receive, r.count, r.type, comm);
        break;
    case K_ALLTOALL:
        code = COLLECT(Alltoall, Ialltoall, send, s.count, s.type, args->receive, r.count, r.type, comm);
        break;
    case K_NEIGHBOR_ALLGATHER:
        code = COLLECT(Neighbor_allgather, Ineighbor_allgather, send, s.count, s.type, args->receive, r.count, r.type,
                       comm);
        break;
    case K_NEIGHBOR_ALLTOALL:
        code = COLLECT(Neighbor_alltoall, Ineighbor_alltoall, send, s.count, s.type, args->receive, r.count, r.type,
                       comm);
        break;
    default:
        code = UNSUPPORTED;
    }
    let_go(&s);
    let_go(&r);
    return give_collective(code, made, request);
}

/* A reduction has one count and one type: of what is sent, or what is received if that is all there is.
 * A block of reduce_scatter_block is what is received. */
static int reduce_equal(const struct heddle_mpi_collective_args *args, native *request)
{
    MPI_Comm comm = to_comm(args->comm);
    MPI_Op op = to_op(args->op);
    MPI_Request made = known.no_request;
    const void *send = args->send;
    int by_block = args->kind == K_REDUCE_SCATTER_BLOCK, code;
    int of_received = args->receive_type && (!args->send_type || by_block);
    int64_t count = of_received ? args->receives : args->sends;
    MPI_Datatype type = to_type(of_received ? args->receive_type : args->send_type);
    int large = count > INT_MAX;
    if (count < 0) return MPI_ERR_COUNT;
    if (large && !has_wide) return too_large("a reduction of a number of elements");
    switch (args->kind) {
    case K_REDUCE:
        code = COLLECT(Reduce, Ireduce, send, args->receive, count, type, op, to_rank(args->root), comm);
        break;
    case K_ALLREDUCE:
        code = COLLECT(Allreduce, Iallreduce, send, args->receive, count, type, op, comm);
        break;
    case K_SCAN:
        code = COLLECT(Scan, Iscan, send, args->receive, count, type, op, comm);
        break;
    case K_EXSCAN:
        code = COLLECT(Exscan, Iexscan, send, args->receive, count, type, op, comm);
        break;
    default:
        code = COLLECT(Reduce_scatter_block, Ireduce_scatter_block, send, args->receive, count, type, op, comm);
    }
    return give_collective(code, made, request);
}

static int neighbours(MPI_Comm comm, int *ins, int *outs)
{
    int topology, weighted, code = mpi.MPI_Topo_test(comm, &topology);
    if (code) return code;
    if (topology == MPI_DIST_GRAPH) return mpi.MPI_Dist_graph_neighbors_count(comm, ins, outs, &weighted);
    if (topology != MPI_CART) return MPI_ERR_TOPOLOGY;
    code = mpi.MPI_Cartdim_get(comm, ins);
    *outs = *ins *= 2;
    return code;
}

/* How many entries the arrays have. */
static int parts_of(const struct heddle_mpi_collective_args *args, int *ins, int *outs)
{
    MPI_Comm comm = to_comm(args->comm);
    int inter = 0, code;
    if (args->kind == K_NEIGHBOR_ALLTOALLV) return neighbours(comm, ins, outs);
    if ((code = mpi.MPI_Comm_test_inter(comm, &inter))) return code;
    /* What reduce_scatter scatters is shared out in the own group. */
    code = inter && args->kind != K_REDUCE_SCATTER ? mpi.MPI_Comm_remote_size(comm, ins) : mpi.MPI_Comm_size(comm, ins);
    *outs = *ins;
    return code;
}

/* Replaces the arrays by such of ints. */
static int narrow_parts(const struct heddle_mpi_collective_args *args, const void *array[ARRAYS], struct kept **made)
{
    int ins, outs, code = parts_of(args, &ins, &outs);
    if (code) return code;
    struct kept *kept = malloc(sizeof *kept + sizeof(int) * 2 * ((size_t)ins + (size_t)outs));
    if (!kept) return NO_MEMORY;
    int *to = kept->numbers;
    for (int i = 0; i < ARRAYS; i++) {
        int count = i < RECEIVE_COUNTS ? outs : ins;
        if (!array[i]) continue; /* It is for the root alone, or for another kind. */
        if (narrow(count, array[i], to)) {
            free(kept);
            return too_large("a count or offset");
        }
        array[i] = to;
        to += count;
    }
    *made = kept;
    return 0;
}

static int collect_arrays(const struct heddle_mpi_collective_args *args, const void *const array[ARRAYS], int large,
                          const struct amount *s, const struct amount *r, native *request)
{
    MPI_Comm comm = to_comm(args->comm);
    MPI_Request made = known.no_request;
    const void *send = args->send;
    const void *sends = array[SEND_COUNTS], *from = array[SEND_OFFSETS];
    const void *receives = array[RECEIVE_COUNTS], *to = array[RECEIVE_OFFSETS];
    int root = to_rank(args->root), code;
    switch (args->kind) {
    case K_GATHERV:
        code = COLLECT(Gatherv, Igatherv, send, s->count, s->type, args->receive, receives, to, r->type, root, comm);
        break;
    case K_SCATTERV:
        code = COLLECT(Scatterv, Iscatterv, args->send, sends, from, s->type,
                       args->receive, r->count, r->type, root, comm);
        break;
    case K_ALLGATHERV:
        code = COLLECT(Allgatherv, Iallgatherv, send, s->count, s->type, args->receive, receives, to, r->type, comm);
        break;
    case K_ALLTOALLV:
        code = COLLECT(Alltoallv, Ialltoallv, send, sends, from, s->type, args->receive, receives, to, r->type, comm);
        break;
    case K_NEIGHBOR_ALLTOALLV:
        code = COLLECT(Neighbor_alltoallv, Ineighbor_alltoallv, send, sends, from, s->type, args->receive, receives, to,
                       r->type, comm);
        break;
    default:
        code = COLLECT(Reduce_scatter, Ireduce_scatter, send, args->receive, receives,
                       to_type(args->send_type ? args->send_type : args->receive_type), to_op(args->op), comm);
    }
    return give_collective(code, made, request);
}

/* Each process's part has a size of its own. */
static int collect_unequal(const struct heddle_mpi_collective_args *args, native *request)
{
    const void *array[ARRAYS] = { args->send_counts, args->send_offsets, args->receive_counts, args->receive_offsets };
    struct kept *kept = 0;
    struct amount s, r;
    /* MPI_Allgatherv_c of MPICH 4.0 crashes where an int is too small, so that one has ints everywhere. */
    int wide = has_wide && args->kind != K_ALLGATHERV;
    int code = fit(args->kind == K_GATHERV || args->kind == K_ALLGATHERV ? args->sends : 0, args->send_type, &s);
    if (code == 0 && s.large && !wide) code = fit_row(&s);
    if (code) return code;
    code = fit(args->kind == K_SCATTERV ? args->receives : 0, args->receive_type, &r);
    if (code == 0 && !wide) code = narrow_parts(args, array, &kept);
    if (code == 0) code = collect_arrays(args, array, wide, &s, &r, request);
    let_go(&s);
    let_go(&r);
    if (kept && request && code == 0) keep(kept, *request);
    else free(kept);
    return code;
}

static int collective(const struct heddle_mpi_collective_args *args, native *request)
{
    switch (args->kind) {
    case K_GATHERV: case K_SCATTERV: case K_ALLGATHERV: case K_ALLTOALLV: case K_NEIGHBOR_ALLTOALLV:
    case K_REDUCE_SCATTER:
        return collect_unequal(args, request);
    case K_REDUCE: case K_ALLREDUCE: case K_SCAN: case K_EXSCAN: case K_REDUCE_SCATTER_BLOCK:
        return reduce_equal(args, request);
    default:
        return collect_equal(args, request);
    }
}

/* COMMUNICATORS. */

static int comm_size(native comm, int *size) { return mpi.MPI_Comm_size(to_comm(comm), size); }
static int comm_rank(native comm, int *rank) { return mpi.MPI_Comm_rank(to_comm(comm), rank); }

static int comm_remote_size(native comm, int *size)
{
    int inter = 0, code = mpi.MPI_Comm_test_inter(to_comm(comm), &inter);
    *size = -1;
    return code || !inter ? code : mpi.MPI_Comm_remote_size(to_comm(comm), size);
}

static int comm_compare(native a, native b, int *how)
{
    int result = MPI_UNEQUAL, code = mpi.MPI_Comm_compare(to_comm(a), to_comm(b), &result);
    *how = result == MPI_IDENT ? 0 : result == MPI_CONGRUENT ? 1 : result == MPI_SIMILAR ? 2 : 3;
    return code;
}

static int comm_dup(native comm, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_dup(to_comm(comm), &got);
    return give_comm(code, got, made);
}

static int comm_split(native comm, int colour, int key, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_split(to_comm(comm), colour == UNDEFINED ? MPI_UNDEFINED : colour, key, &got);
    return give_comm(code, got, made);
}

static int comm_split_shared(native comm, int key, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_split_type(to_comm(comm), MPI_COMM_TYPE_SHARED, key, known.no_info, &got);
    return give_comm(code, got, made);
}

static int comm_create(native comm, native group, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_create(to_comm(comm), to_group(group), &got);
    return give_comm(code, got, made);
}

/* The two that are not to be closed: not every MPI refuses that. */
static int is_permanent(native comm) { return comm == 0 || comm == calls.world || comm == calls.self; }

static int comm_free(native *comm)
{
    if (is_permanent(*comm)) return MPI_ERR_COMM;
    MPI_Comm handle = to_comm(*comm);
    int code = mpi.MPI_Comm_free(&handle);
    *comm = from_comm(handle);
    return code;
}

static int comm_disconnect(native *comm)
{
    if (is_permanent(*comm)) return MPI_ERR_COMM;
    MPI_Comm handle = to_comm(*comm);
    int code = mpi.MPI_Comm_disconnect(&handle);
    *comm = from_comm(handle);
    return code;
}

static int comm_name(native comm, char *text, int capacity, int set)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length;
    if (set) return mpi.MPI_Comm_set_name(to_comm(comm), text);
    int code = mpi.MPI_Comm_get_name(to_comm(comm), name, &length);
    snprintf(text, (size_t)capacity, "%s", name);
    return code;
}

static int inter_create(native local, int leader, native peer, int remote_leader, int tag, native *made)
{
    MPI_Comm got;
    int first = to_rank(leader), other = to_rank(remote_leader);
    int code = mpi.MPI_Intercomm_create(to_comm(local), first, to_comm(peer), other, tag, &got);
    return give_comm(code, got, made);
}

static int inter_merge(native inter, int high, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Intercomm_merge(to_comm(inter), high, &got);
    return give_comm(code, got, made);
}

/* GROUPS. */

static int group_of(native comm, int remote, native *group)
{
    MPI_Group got;
    int code = remote ? mpi.MPI_Comm_remote_group(to_comm(comm), &got) : mpi.MPI_Comm_group(to_comm(comm), &got);
    return give_group(code, got, group);
}

static int group_size(native group, int *size) { return mpi.MPI_Group_size(to_group(group), size); }

static int group_rank(native group, int *rank)
{
    int code = mpi.MPI_Group_rank(to_group(group), rank);
    if (code == 0) *rank = from_rank(*rank);
    return code;
}

static int group_pick(native group, int count, const int *ranks, int leave_out, native *made)
{
    MPI_Group got;
    int *picked = translated_ranks(count, ranks);
    if (!picked) return NO_MEMORY;
    int code = leave_out ? mpi.MPI_Group_excl(to_group(group), count, picked, &got)
                         : mpi.MPI_Group_incl(to_group(group), count, picked, &got);
    free(picked);
    return give_group(code, got, made);
}

static int group_combine(native a, native b, int how, native *made)
{
    MPI_Group got;
    int code = how == 0 ? mpi.MPI_Group_union(to_group(a), to_group(b), &got)
             : how == 1 ? mpi.MPI_Group_intersection(to_group(a), to_group(b), &got)
             : mpi.MPI_Group_difference(to_group(a), to_group(b), &got);
    return give_group(code, got, made);
}

static int group_translate(native from, int count, const int *ranks, native to, int *translated)
{
    int *asked = translated_ranks(count, ranks);
    if (!asked) return NO_MEMORY;
    int code = mpi.MPI_Group_translate_ranks(to_group(from), count, asked, to_group(to), translated);
    /* Nobody is nobody everywhere, though neither MPI says so of the empty group. */
    for (int i = 0; code == 0 && i < count; i++)
        translated[i] = ranks[i] == NO_RANK ? NO_RANK : from_rank(translated[i]);
    free(asked);
    return code;
}

static int group_free(native *group)
{
    if (*group == 0) return 0;
    MPI_Group handle = to_group(*group);
    int code = mpi.MPI_Group_free(&handle);
    *group = from_group(handle);
    return code;
}

/* TOPOLOGIES. */

static int dims_create(int nodes, int dimensions, int *sizes) { return mpi.MPI_Dims_create(nodes, dimensions, sizes); }

static int cart_create(native comm, int dimensions, const int *sizes, const int *periodic, int reorder, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Cart_create(to_comm(comm), dimensions, sizes, periodic, reorder, &got);
    return give_comm(code, got, made);
}

/* With too little room only the number of dimensions is told. */
static int neighbour_counts(native comm, int *ins, int *outs)
{
    return neighbours(to_comm(comm), ins, outs);
}

static int cart_get(native comm, int capacity, int *dimensions, int *sizes, int *periodic, int *coordinates)
{
    int code = mpi.MPI_Cartdim_get(to_comm(comm), dimensions);
    if (code || *dimensions > capacity || *dimensions == 0) return code;
    return mpi.MPI_Cart_get(to_comm(comm), *dimensions, sizes, periodic, coordinates);
}

static int cart_rank(native comm, const int *coordinates, int *rank)
{
    return mpi.MPI_Cart_rank(to_comm(comm), coordinates, rank);
}

static int cart_coordinates(native comm, int rank, int dimensions, int *coordinates)
{
    return mpi.MPI_Cart_coords(to_comm(comm), to_rank(rank), dimensions, coordinates);
}

static int cart_shift(native comm, int dimension, int by, int *source, int *destination)
{
    int code = mpi.MPI_Cart_shift(to_comm(comm), dimension, by, source, destination);
    if (code) return code;
    *source = from_rank(*source);
    *destination = from_rank(*destination);
    return 0;
}

static int cart_sub(native comm, const int *keep_dimension, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Cart_sub(to_comm(comm), keep_dimension, &got);
    return give_comm(code, got, made);
}

static int graph_create(native comm, int ins, const int *sources, int outs, const int *destinations, int reorder,
                        native *made)
{
    MPI_Comm got;
    int *from = translated_ranks(ins, sources), *to = translated_ranks(outs, destinations);
    int code = NO_MEMORY;
    if (from && to)
        code = mpi.MPI_Dist_graph_create_adjacent(to_comm(comm), ins, from, known.unweighted, outs, to,
                                                  known.unweighted, known.no_info, reorder, &got);
    free(from);
    free(to);
    return give_comm(code, got, made);
}

static void copy_ranks(int *to, int capacity, const int *from, int count)
{
    for (int i = 0; i < count && i < capacity; i++) to[i] = from_rank(from[i]);
}

/* Tells how many there are, and as many as there is room for. All are asked for, as MPI may refuse less. */
static int graph_neighbours(native comm, int ins_capacity, int *ins, int *sources, int outs_capacity, int *outs,
                            int *destinations)
{
    MPI_Comm graph = to_comm(comm);
    int weighted, code = mpi.MPI_Dist_graph_neighbors_count(graph, ins, outs, &weighted);
    if (code) return code;
    int *all = malloc(sizeof *all * ((size_t)*ins + (size_t)*outs + 1));
    if (!all) return NO_MEMORY;
    code = mpi.MPI_Dist_graph_neighbors(graph, *ins, all, known.unweighted, *outs, all + *ins, known.unweighted);
    if (code == 0) {
        copy_ranks(sources, ins_capacity, all, *ins);
        copy_ranks(destinations, outs_capacity, all + *ins, *outs);
    }
    free(all);
    return code;
}

/* TYPES. */

static int type_contiguous(int64_t count, native type, native *made)
{
    MPI_Datatype got;
    int code = count > INT_MAX ? row_of(count, to_type(type), &got)
             : count < 0 ? MPI_ERR_COUNT : mpi.MPI_Type_contiguous((int)count, to_type(type), &got);
    return give_type(code, got, made);
}

static int type_vector(int64_t count, int64_t length, int64_t stride_bytes, native type, native *made)
{
    MPI_Datatype got;
    int large = count > INT_MAX || length > INT_MAX;
    if (count < 0 || length < 0) return MPI_ERR_COUNT;
    if (large && !has_wide) return too_large("a vector of a number of blocks, or of elements in one,");
    int code = SIZED(MPI_Type_create_hvector, large, count, length, stride_bytes, to_type(type), &got);
    return give_type(code, got, made);
}

static int type_indexed(int64_t count, const int64_t *lengths, const int64_t *offset_bytes, native type, native *made)
{
    MPI_Datatype got;
    const void *offsets = offset_bytes;
    if (count < 0) return MPI_ERR_COUNT;
    int *numbers = malloc(sizeof *numbers * ((size_t)count + 1));
    if (!numbers) return NO_MEMORY;
    int code, large = count > INT_MAX || narrow(count, lengths, numbers) != 0;
    const void *sized = large ? (const void *)lengths : numbers;
    if (large && !has_wide) code = too_large("a number of blocks, or the length of one,");
    else code = SIZED(MPI_Type_create_hindexed, large, count, sized, offsets, to_type(type), &got);
    free(numbers);
    return give_type(code, got, made);
}

static int type_subarray(int dimensions, const int64_t *sizes, const int64_t *part, const int64_t *starts,
                         int column_major, native type, native *made)
{
    MPI_Datatype got;
    int order = column_major ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
    size_t n = dimensions > 0 ? (size_t)dimensions : 0;
    int *numbers = malloc(sizeof *numbers * (3 * n + 1)), code;
    if (!numbers) return NO_MEMORY;
    const void *all[3] = { numbers, numbers + n, numbers + 2 * n };
    int large = narrow((int64_t)n, sizes, numbers) || narrow((int64_t)n, part, numbers + n) ||
                narrow((int64_t)n, starts, numbers + 2 * n);
    if (large) all[0] = sizes, all[1] = part, all[2] = starts;
    if (large && !has_wide) code = too_large("an array of a side");
    else code = SIZED(MPI_Type_create_subarray, large, dimensions, all[0], all[1], all[2], order, to_type(type), &got);
    free(numbers);
    return give_type(code, got, made);
}

static int type_resized(native type, int64_t lower_bytes, int64_t extent_bytes, native *made)
{
    MPI_Datatype got;
    int code = mpi.MPI_Type_create_resized(to_type(type), lower_bytes, extent_bytes, &got);
    return give_type(code, got, made);
}

static int type_struct(int count, const int64_t *lengths, const int64_t *offset_bytes, const native *types,
                       native *made)
{
    MPI_Datatype got;
    const void *offsets = offset_bytes;
    if (count < 0) return MPI_ERR_COUNT;
    int *numbers = malloc(sizeof *numbers * ((size_t)count + 1)), code = NO_MEMORY;
    MPI_Datatype *parts = malloc(sizeof *parts * ((size_t)count + 1));
    if (numbers && parts) {
        int large = narrow(count, lengths, numbers) != 0;
        const void *sized = large ? (const void *)lengths : numbers;
        for (int i = 0; i < count; i++) parts[i] = to_type(types[i]);
        if (large && !has_wide) code = too_large("the length of a field");
        else code = SIZED(MPI_Type_create_struct, large, count, sized, offsets, parts, &got);
    }
    free(numbers);
    free(parts);
    return give_type(code, got, made);
}

static int type_commit(native *type)
{
    MPI_Datatype handle = to_type(*type);
    int code = mpi.MPI_Type_commit(&handle);
    *type = from_type(handle);
    return code;
}

static int type_measure(native type, int64_t *size, int64_t *lower, int64_t *extent)
{
    MPI_Count bytes = 0;
    MPI_Aint first = 0, next = 0;
    int code = mpi.MPI_Type_size_x(to_type(type), &bytes);
    if (code == 0) code = mpi.MPI_Type_get_extent(to_type(type), &first, &next);
    *size = bytes;
    *lower = first;
    *extent = next;
    return code;
}

static int type_reach(native type, int64_t *low, int64_t *high)
{
    MPI_Aint first = 0, bytes = 0;
    int code = mpi.MPI_Type_get_true_extent(to_type(type), &first, &bytes);
    *low = first;
    *high = first + bytes;
    return code;
}

static int type_free(native *type)
{
    if (*type == 0) return MPI_ERR_TYPE;
    MPI_Datatype handle = to_type(*type);
    int code = mpi.MPI_Type_free(&handle);
    *type = from_type(handle);
    return code;
}

/* FILES. */

static int file_mode(int mode)
{
    static const struct { int ours, theirs; } modes[] = {
        { F_CREATE, MPI_MODE_CREATE }, { F_EXCLUSIVE, MPI_MODE_EXCL }, { F_DELETE, MPI_MODE_DELETE_ON_CLOSE },
        { F_UNIQUE, MPI_MODE_UNIQUE_OPEN }, { F_SEQUENTIAL, MPI_MODE_SEQUENTIAL }, { F_APPEND, MPI_MODE_APPEND }
    };
    int both = F_READ | F_WRITE, result = 0;
    if ((mode & both) == both) result = MPI_MODE_RDWR;
    else if (mode & F_READ) result = MPI_MODE_RDONLY;
    else if (mode & F_WRITE) result = MPI_MODE_WRONLY;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (mode & modes[i].ours) result |= modes[i].theirs;
    return result;
}

static int set_hint(MPI_Info info, const char *hint)
{
    char key[MPI_MAX_INFO_KEY + 1];
    const char *value = strchr(hint, '=');
    size_t length = value ? (size_t)(value - hint) : 0;
    if (length == 0 || length >= sizeof key) {
        heddle_mpi_set_detail("the hint \"%s\" is not of the form key=value", hint);
        return ARGUMENT;
    }
    memcpy(key, hint, length);
    key[length] = 0;
    return mpi.MPI_Info_set(info, key, value + 1);
}

static int file_open(native comm, const char *path, int mode, const char *const *hints, int hint_count, native *file)
{
    MPI_Info info = known.no_info;
    MPI_File handle = known.no_file;
    int code = hint_count > 0 ? mpi.MPI_Info_create(&info) : 0;
    *file = 0;
    for (int i = 0; code == 0 && i < hint_count; i++) code = set_hint(info, hints[i]);
    if (code == 0) code = mpi.MPI_File_open(to_comm(comm), path, file_mode(mode), info, &handle);
    if (code == 0) {
        mpi.MPI_File_set_errhandler(handle, known.return_errors);
        *file = from_file(handle);
    }
    if (info != known.no_info) mpi.MPI_Info_free(&info);
    return code;
}

static int file_close(native *file)
{
    MPI_File handle = to_file(*file);
    int code = mpi.MPI_File_close(&handle);
    *file = from_file(handle);
    return code;
}

static int file_delete(const char *path) { return mpi.MPI_File_delete(path, known.no_info); }

static int file_size(native file, int64_t *bytes)
{
    MPI_Offset size = 0;
    int code = mpi.MPI_File_get_size(to_file(file), &size);
    *bytes = size;
    return code;
}

static int file_resize(native file, int64_t bytes, int preallocate)
{
    return preallocate ? mpi.MPI_File_preallocate(to_file(file), bytes) : mpi.MPI_File_set_size(to_file(file), bytes);
}

static int file_sync(native file) { return mpi.MPI_File_sync(to_file(file)); }
static int file_atomic(native file, int yes) { return mpi.MPI_File_set_atomicity(to_file(file), yes); }

static int file_view(native file, int64_t offset_bytes, native element, native view)
{
    return mpi.MPI_File_set_view(to_file(file), offset_bytes, to_type(element), to_type(view), "native", known.no_info);
}

static int file_seek(native file, int64_t by, int whence, int shared)
{
    int from = whence == 0 ? MPI_SEEK_SET : whence == 1 ? MPI_SEEK_CUR : MPI_SEEK_END;
    return shared ? mpi.MPI_File_seek_shared(to_file(file), by, from) : mpi.MPI_File_seek(to_file(file), by, from);
}

static int file_tell(native file, int shared, int64_t *offset)
{
    MPI_File handle = to_file(file);
    MPI_Offset at = 0;
    int code = shared ? mpi.MPI_File_get_position_shared(handle, &at) : mpi.MPI_File_get_position(handle, &at);
    *offset = at;
    return code;
}

static int file_byte(native file, int64_t offset, int64_t *byte)
{
    MPI_Offset at = 0;
    int code = mpi.MPI_File_get_byte_offset(to_file(file), offset, &at);
    *byte = at;
    return code;
}

/* One way to move the data, of the four that each place and company has. */
#define MOVE(how, ...) \
    (request ? (write ? mpi.MPI_File_iwrite##how(__VA_ARGS__, data, count, type, &made) \
                      : mpi.MPI_File_iread##how(__VA_ARGS__, data, count, type, &made)) \
             : (write ? mpi.MPI_File_write##how(__VA_ARGS__, data, count, type, &got) \
                      : mpi.MPI_File_read##how(__VA_ARGS__, data, count, type, &got)))

static int move(MPI_File file, int write, int place, int together, int64_t offset, void *data, int count,
                MPI_Datatype type, native *request, heddle_mpi_status *status)
{
    MPI_Request made = known.no_request;
    MPI_Status got;
    int code;
    memset(&got, 0, sizeof got); /* Of a file, only the count need be set. */
    if (place == P_AT) code = together ? MOVE(_at_all, file, offset) : MOVE(_at, file, offset);
    else if (place == P_OWN) code = together ? MOVE(_all, file) : MOVE(, file);
    else if (!together) code = MOVE(_shared, file);
    else if (request) return UNSUPPORTED; /* MPI has only begin and end of these, which are no requests. */
    else if (write) code = mpi.MPI_File_write_ordered(file, data, count, type, &got);
    else code = mpi.MPI_File_read_ordered(file, data, count, type, &got);
    if (request) return give_request(code, made, request);
    if (code == 0) give_status(&got, 0, status);
    return code;
}

/* A large count is a row even with MPI 4: MPI_File_write_at_c of MPICH 4.0 ends the program for one above INT_MAX. */
static int file_transfer(native file, int write, int place, int together, int64_t offset, void *data, int64_t count,
                         native type, native *request, heddle_mpi_status *status)
{
    struct amount a = { .type = to_type(type), .count = count };
    int code = (uint64_t)count > INT_MAX ? fit_row(&a) : 0;
    if (code) return code;
    code = move(to_file(file), write, place, together, offset, data, (int)a.count, a.type, request, status);
    let_go(&a);
    return code;
}

/* PROCESSES. */

enum { PORT_ROOM = 4096 }; /* For newer libraries, whose ports may be longer than this header says. */

static int is_refusal(int code)
{
    char text[MPI_MAX_ERROR_STRING + 1];
    if (code == 0) return 0;
    error_text(code, text, sizeof text);
    return strstr(text, "not supported") != 0;
}

/* MPICH 5's network module ucx has ports of some 400 bytes, and opens them only if the caller says that it has room. */
static int new_port(char name[PORT_ROOM])
{
    char room[16];
    MPI_Info info;
    int code = mpi.MPI_Info_create(&info);
    if (code) return code;
    snprintf(room, sizeof room, "%d", PORT_ROOM);
    code = mpi.MPI_Info_set(info, "port_name_size", room);
    if (code == 0) code = mpi.MPI_Open_port(info, name);
    mpi.MPI_Info_free(&info);
    return code;
}

/* Some builds, as Debian 12's MPICH with its network module ucx, have none of the calls below. They say so when a port
 * is opened, but of the others only that they have failed. */
static int known_reason(int code)
{
    char port[PORT_ROOM] = "";
    if (code == 0) return 0;
    if (!is_refusal(code)) {
        int opened = new_port(port);
        if (opened == 0) mpi.MPI_Close_port(port);
        if (!is_refusal(opened)) return code;
    }
    heddle_mpi_set_detail("this build of " PROVIDER_TITLE " can neither start processes nor connect to any");
    return UNSUPPORTED;
}

static int port_open(char *port, int capacity)
{
    char name[PORT_ROOM] = "";
    int code = new_port(name);
    if (code) return known_reason(code);
    code = give_text(port, capacity, name, "the name of a port");
    if (code) mpi.MPI_Close_port(name);
    return code;
}

static int port_close(const char *port) { return known_reason(mpi.MPI_Close_port(port)); }

static int comm_accept(const char *port, native comm, int root, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_accept(port, known.no_info, to_rank(root), to_comm(comm), &got);
    return give_comm(known_reason(code), got, made);
}

static int comm_connect(const char *port, native comm, int root, native *made)
{
    MPI_Comm got;
    int code = known_reason(mpi.MPI_Comm_connect(port, known.no_info, to_rank(root), to_comm(comm), &got));
    /* That there is no such port is an internal error to Open MPI's root (an unknown one in Open MPI 6), and a message
     * too long to the others; to MPICH it is another error. */
    int class = code > 0 ? error_class(code) : C_SUCCESS;
    if (class == C_INTERN || class == C_UNKNOWN || class == C_TRUNCATE || class == C_OTHER) code = MPI_ERR_PORT;
    return give_comm(code, got, made);
}

static int comm_spawn(native comm, int root, const char *program, char *const *arguments, int count, native *made)
{
    MPI_Comm got;
    int code = mpi.MPI_Comm_spawn(program, arguments ? (char **)arguments : MPI_ARGV_NULL, count, known.no_info,
                                  to_rank(root), to_comm(comm), &got, MPI_ERRCODES_IGNORE);
    return give_comm(known_reason(code), got, made);
}

static struct heddle_mpi_calls calls = {
    .name = PROVIDER_NAME,
#define CALL(name) .name = name
    CALL(begin), CALL(end), CALL(abort_job), CALL(error_class), CALL(error_text), CALL(version),
    .clock = clock_now, CALL(clock_tick), CALL(parent),
    CALL(isend), CALL(irecv), CALL(improbe), CALL(iprobe), CALL(imrecv), CALL(send_init), CALL(recv_init),
    CALL(start), CALL(test), CALL(test_some), CALL(cancel), CALL(request_free), CALL(collective),
    CALL(comm_size), CALL(comm_rank), CALL(comm_remote_size), CALL(comm_compare), CALL(comm_dup), CALL(comm_split),
    CALL(comm_split_shared), CALL(comm_create), CALL(comm_free), CALL(comm_name), CALL(inter_create), CALL(inter_merge),
    CALL(group_of), CALL(group_size), CALL(group_rank), CALL(group_pick), CALL(group_combine), CALL(group_translate),
    CALL(group_free),
    CALL(dims_create), CALL(cart_create), CALL(cart_get), CALL(cart_rank), CALL(cart_coordinates), CALL(cart_shift),
    CALL(cart_sub), CALL(graph_create), CALL(neighbour_counts), CALL(graph_neighbours),
    CALL(type_contiguous), CALL(type_vector), CALL(type_indexed), CALL(type_subarray), CALL(type_resized),
    CALL(type_struct), CALL(type_commit), CALL(type_measure), CALL(type_reach), CALL(type_free),
    CALL(file_open), CALL(file_close), CALL(file_delete), CALL(file_size), CALL(file_resize), CALL(file_sync),
    CALL(file_atomic), CALL(file_view), CALL(file_seek), CALL(file_tell), CALL(file_byte), CALL(file_transfer),
    CALL(port_open), CALL(port_close), CALL(comm_accept), CALL(comm_connect), CALL(comm_spawn), CALL(comm_disconnect)
#undef CALL
};
