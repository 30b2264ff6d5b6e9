/*
 * The integral of the sine over [0, 1000 pi] by N trapezoids, as in "High Performance Haskell with MPI".
 *
 *   mpi_trapezoid [single] gather|reduce N [TIMES]
 *
 * Each rank sums the sines at its share of the points between the ends; shares differ by one point at the most. A
 * point's place is the one before and the width, as in the article; every 65,536 points it is computed from its number
 * again, so that rounding does not add up. The loop is Heddle's (mpi/Sines.hs).
 *
 * Prints "timed WALL CPU ANSWER" for each time, in nanoseconds for all of it, from when all ranks begin until the
 * root has the answer.
 */
#include "mpi_common.h"
#include <math.h>

enum { ROW = 65536 };

/* The sines at the points from `from` up to `to`. */
__attribute__((noinline)) static double row(int64_t from, int64_t to, double h, double x)
{
    double found = 0;
    for (int64_t i = from; i < to; i++) {
        found += sin(x);
        x += h;
    }
    return found;
}

static double sines(double a, double h, int64_t from, int64_t to)
{
    double found = 0;
    for (int64_t i = from; i < to; i += ROW)
        found += row(i, i + ROW < to ? i + ROW : to, h, a + (double)i * h);
    return found;
}

int main(int argc, char **argv)
{
    static const char usage[] = "gather|reduce N [TIMES]";
    int size, rank = begin(&argc, &argv, &size);
    const char *way = argc > 1 ? argv[1] : "";
    if (strcmp(way, "gather") && strcmp(way, "reduce"))
        number(0, argv, 1, usage);
    int64_t n = number(argc, argv, 2, usage);
    long times = argc > 3 ? number(argc, argv, 3, usage) : 1;
    double a = 0, b = 1000 * M_PI, h = (b - a) / (double)n;
    double *all = malloc(size * sizeof *all);
    for (long time = 0; time < times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        struct mark before = mark();
        /* The points 1 to n - 1; the first ranks have one more if they cannot be dealt evenly. */
        int64_t each = (n - 1) / size, more = (n - 1) % size;
        int64_t from = 1 + rank * each + (rank < more ? rank : more);
        double mine = sines(a, h, from, from + each + (rank < more)), sum = 0;
        if (strcmp(way, "reduce") == 0) {
            MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        } else {
            MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            if (rank == 0)
                for (int i = 0; i < size; i++)
                    sum += all[i];
        }
        double answer = h * ((sin(a) + sin(b)) / 2 + sum);
        if (rank == 0)
            report(1, before, mark(), answer);
    }
    free(all);
    MPI_Finalize();
    return 0;
}
