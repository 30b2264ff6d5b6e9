/* What the programs of run.py mpi share in C: the beginning, the options, the line that is reported. */
#ifndef HEDDLE_BENCH_MPI_H
#define HEDDLE_BENCH_MPI_H
#define _GNU_SOURCE
#include <mpi.h>
#include "common.h"

/* Returns this process's rank and the number of processes. As Heddle does, it asks for MPI_THREAD_MULTIPLE; after
 * the word "single", for MPI_THREAD_SINGLE. */
static int begin(int *argc, char ***argv, int *size)
{
    int single = *argc > 1 && strcmp((*argv)[1], "single") == 0;
    int wanted = single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, granted, rank;
    if (single) {
        (*argv)[1] = (*argv)[0];
        ++*argv;
        --*argc;
    }
    MPI_Init_thread(argc, argv, wanted, &granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    if (granted < wanted) {
        fprintf(stderr, "%s: this MPI has no MPI_THREAD_MULTIPLE\n", program_invocation_short_name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return rank;
}

/* An argument that is a number; all are positive. */
static long number(int argc, char **argv, int at, const char *usage)
{
    char *end = NULL;
    long n = at < argc ? strtol(argv[at], &end, 10) : 0;
    if (n < 1 || *end) {
        fprintf(stderr, "usage: %s [single] %s\n", program_invocation_short_name, usage);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return n;
}

struct mark {
    int64_t wall, cpu;
};

static inline struct mark mark(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct mark){now_ns(), (int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

/* Nanoseconds of wall and CPU time of this process for each of so many steps, and what came out. */
static inline void report(long steps, struct mark from, struct mark to, double answer)
{
    printf("timed %.3f %.3f %.17g\n", (double)(to.wall - from.wall) / steps, (double)(to.cpu - from.cpu) / steps, answer);
    fflush(stdout);
}

#endif
