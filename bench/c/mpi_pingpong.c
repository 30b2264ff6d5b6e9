/*
 * A message to the other rank and back, with MPI_Send and MPI_Recv.
 *
 *   mpi_pingpong [single] BYTES ROUNDS [TIMES]
 *
 * Prints "timed WALL CPU ANSWER" for each time, in nanoseconds for one message (half a round), of rank 0.
 */
#include "mpi_common.h"

static int64_t rounds(char *data, int bytes, long count, int rank)
{
    int64_t answer = 0;
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            answer++;
        } else {
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return answer;
}

int main(int argc, char **argv)
{
    static const char usage[] = "BYTES ROUNDS [TIMES], with two ranks";
    int size, rank = begin(&argc, &argv, &size);
    long bytes = number(argc, argv, 1, usage), count = number(argc, argv, 2, usage);
    long times = argc > 3 ? number(argc, argv, 3, usage) : 1;
    if (size != 2)
        number(0, argv, 1, usage);
    char *data = calloc(bytes, 1);
    rounds(data, bytes, 1 + count / 10, rank);
    for (long time = 0; time < times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        struct mark before = mark();
        int64_t answer = rounds(data, bytes, count, rank);
        struct mark after = mark();
        if (rank == 0)
            report(2 * count, before, after, answer);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
