/* MPICH, and what shares its binary interface, as a provider: heddle_mpi_shim.h against its mpi.h.
 * HEDDLE_MPICH_HEADER names one that lies elsewhere. */
#include "heddle_mpi.h"

#if defined HEDDLE_MPICH_HEADER
#define HEADER HEDDLE_MPICH_HEADER
#elif defined __x86_64__ && __has_include("/usr/include/x86_64-linux-gnu/mpich/mpi.h")
#define HEADER "/usr/include/x86_64-linux-gnu/mpich/mpi.h"
#define PROTOTYPES "/usr/include/x86_64-linux-gnu/mpich/mpi_proto.h"
#elif defined __aarch64__ && __has_include("/usr/include/aarch64-linux-gnu/mpich/mpi.h")
#define HEADER "/usr/include/aarch64-linux-gnu/mpich/mpi.h"
#define PROTOTYPES "/usr/include/aarch64-linux-gnu/mpich/mpi_proto.h"
#elif defined __x86_64__ && __has_include("/usr/include/mpich-x86_64/mpi.h")
#define HEADER "/usr/include/mpich-x86_64/mpi.h"
#define PROTOTYPES "/usr/include/mpich-x86_64/mpi_proto.h"
#elif defined __aarch64__ && __has_include("/usr/include/mpich-aarch64/mpi.h")
#define HEADER "/usr/include/mpich-aarch64/mpi.h"
#define PROTOTYPES "/usr/include/mpich-aarch64/mpi_proto.h"
#elif __has_include(<mpich/mpi.h>)
#define HEADER <mpich/mpi.h>
#define PROTOTYPES <mpich/mpi_proto.h>
#endif

#ifdef HEADER
/* MPICH 4 includes <mpi_proto.h>, which is not found without an option of the compiler: our own file of this name is, and
 * includes PROTOTYPES. Older versions have their prototypes in mpi.h. */
#include HEADER
#endif

#ifdef MPICH_VERSION
#include <dlfcn.h>
#include <string.h>

/* Handles are numbers, the same in all that keep to the interface of MPICH; they have no symbol in common. */
static int is_ours(void *opened, const char *version)
{
    static const char *const names[] = { "MPICH", "MVAPICH", "Intel(R) MPI" };
    if (dlsym(opened, "ompi_mpi_comm_world")) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(version, names[i])) return 1;
    return 0;
}

#define PROVIDER_NAME "mpich"
#define PROVIDER_TITLE "MPICH"
#define PROVIDER_LIBRARIES "libmpich.so.12", "libmpi.so.12"
#include "heddle_mpi_shim.h"

const struct heddle_mpi_calls *heddle_mpi_provider_mpich(void) { return &calls; }
#else
const struct heddle_mpi_calls *heddle_mpi_provider_mpich(void) { return 0; }
#endif
