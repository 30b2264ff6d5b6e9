/* What MPICH's mpi.h includes; see heddle_mpi_mpich.c. */
#include PROTOTYPES
