/*
 * Messages of eight bytes from rank 0 to rank 1, which has posted all receives before, in the reverse order.
 *
 *   mpi_reverse [single] MESSAGES [TIMES]
 *
 * Prints "timed WALL CPU ANSWER" for each time, in nanoseconds for one message, of rank 0.
 */
#include "mpi_common.h"

static void once(int rank, long n, int64_t *values, MPI_Request *requests)
{
    int mine = rank < 2 ? n : 0;
    for (long i = 0; rank == 1 && i < n; i++)
        MPI_Irecv(values + i, 1, MPI_INT64_T, 0, n - 1 - i, MPI_COMM_WORLD, requests + i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (long i = 0; rank == 0 && i < n; i++)
        MPI_Isend(values + i, 1, MPI_INT64_T, 1, i, MPI_COMM_WORLD, requests + i);
    MPI_Waitall(mine, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const char usage[] = "MESSAGES [TIMES]";
    int size, rank = begin(&argc, &argv, &size);
    long n = number(argc, argv, 1, usage), times = argc > 2 ? number(argc, argv, 2, usage) : 1;
    int64_t *values = calloc(n, sizeof *values);
    MPI_Request *requests = calloc(n, sizeof *requests);
    once(rank, n, values, requests);
    for (long time = 0; time < times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        struct mark before = mark();
        once(rank, n, values, requests);
        struct mark after = mark();
        if (rank == 0)
            report(n, before, after, n);
    }
    free(values);
    free(requests);
    MPI_Finalize();
    return 0;
}
