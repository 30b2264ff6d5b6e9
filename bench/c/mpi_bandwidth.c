/*
 * Messages from rank 0 to rank 1, so many at a time, which rank 1 then confirms by one byte.
 *
 *   mpi_bandwidth [single] BYTES MESSAGES [TIMES]
 *
 * Prints "timed WALL CPU ANSWER" for each time, in nanoseconds for one message, of rank 0.
 */
#include "mpi_common.h"

enum { WINDOW = 16 };

/* Each message of a window has memory of its own. */
static void windows(char *data, int bytes, long count, int rank)
{
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW]; /* nobody reads them; compilers warn of MPICH's "ignore" */
    for (long i = 0; i < count; i += WINDOW) {
        for (int k = 0; k < WINDOW; k++)
            if (rank == 0)
                MPI_Isend(data + (int64_t)k * bytes, bytes, MPI_BYTE, 1, k, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(data + (int64_t)k * bytes, bytes, MPI_BYTE, 0, k, MPI_COMM_WORLD, &requests[k]);
        MPI_Waitall(WINDOW, requests, statuses);
        char done = 1;
        if (rank == 0)
            MPI_Recv(&done, 1, MPI_BYTE, 1, WINDOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&done, 1, MPI_BYTE, 0, WINDOW, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    static const char usage[] = "BYTES MESSAGES [TIMES], with two ranks";
    int size, rank = begin(&argc, &argv, &size);
    long bytes = number(argc, argv, 1, usage), count = number(argc, argv, 2, usage);
    long times = argc > 3 ? number(argc, argv, 3, usage) : 1;
    if (size != 2)
        number(0, argv, 1, usage);
    count = (count + WINDOW - 1) / WINDOW * WINDOW;
    char *data = malloc(WINDOW * bytes);
    memset(data, rank + 1, WINDOW * bytes);
    windows(data, bytes, WINDOW, rank);
    for (long time = 0; time < times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        struct mark before = mark();
        windows(data, bytes, count, rank);
        struct mark after = mark();
        if (rank == 0)
            report(count, before, after, count);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
