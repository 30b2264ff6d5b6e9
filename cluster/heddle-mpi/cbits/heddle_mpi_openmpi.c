/* Open MPI as a provider: heddle_mpi_shim.h against its mpi.h. HEDDLE_OPENMPI_HEADER names one that lies elsewhere. */
#define _GNU_SOURCE
#include "heddle_mpi.h"

#if defined HEDDLE_OPENMPI_HEADER
#include HEDDLE_OPENMPI_HEADER
#elif defined __x86_64__ && __has_include("/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h")
#include "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"
#elif defined __aarch64__ && __has_include("/usr/lib/aarch64-linux-gnu/openmpi/include/mpi.h")
#include "/usr/lib/aarch64-linux-gnu/openmpi/include/mpi.h"
#elif defined __x86_64__ && __has_include("/usr/include/openmpi-x86_64/mpi.h")
#include "/usr/include/openmpi-x86_64/mpi.h"
#elif defined __aarch64__ && __has_include("/usr/include/openmpi-aarch64/mpi.h")
#include "/usr/include/openmpi-aarch64/mpi.h"
#elif __has_include(<openmpi/mpi.h>)
#include <openmpi/mpi.h>
#endif

#ifdef OPEN_MPI
#include <dlfcn.h>

/* Its predefined objects are globals of the library; by name, since this object must not refer to them. */
static void *predefined(const char *name);
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)predefined(#global))

/* The globals are what the handles of this header mean, so the library that has them is the right one. */
static int is_ours(void *opened, const char *version)
{
    (void)version;
    return dlsym(opened, "ompi_mpi_comm_world") != 0;
}

#define PROVIDER_NAME "openmpi"
#define PROVIDER_TITLE "Open MPI"
#define PROVIDER_LIBRARIES "libmpi.so.40"
#include "heddle_mpi_shim.h"

static void *predefined(const char *name)
{
    /* Not in the library itself: of a program in C that was linked against it, the program has the objects (they are
     * copied into it), and the library uses those. */
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) lacking = name;
    return found;
}

const struct heddle_mpi_calls *heddle_mpi_provider_openmpi(void) { return &calls; }
#else
const struct heddle_mpi_calls *heddle_mpi_provider_openmpi(void) { return 0; }
#endif
