/*
 * The sums of doubles over all ranks, on every rank.
 *
 *   mpi_allreduce [single] DOUBLES ROUNDS [TIMES]
 *
 * Prints "timed WALL CPU ANSWER" for each time, in nanoseconds for one allreduce, of rank 0.
 */
#include "mpi_common.h"

static double rounds(double *from, double *to, int n, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Allreduce(from, to, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return to[n - 1];
}

int main(int argc, char **argv)
{
    static const char usage[] = "DOUBLES ROUNDS [TIMES]";
    int size, rank = begin(&argc, &argv, &size);
    long n = number(argc, argv, 1, usage), count = number(argc, argv, 2, usage);
    long times = argc > 3 ? number(argc, argv, 3, usage) : 1;
    double *from = calloc(n, sizeof *from), *to = calloc(n, sizeof *to);
    for (long i = 0; i < n; i++)
        from[i] = rank + 1;
    rounds(from, to, n, 1 + count / 10);
    for (long time = 0; time < times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        struct mark before = mark();
        double answer = rounds(from, to, n, count);
        struct mark after = mark();
        if (rank == 0)
            report(count, before, after, answer);
    }
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
