/*
 * The floor of a chain of stages: the sum of what comes out of it, as one loop.
 *
 *   fused N
 *
 * The numbers to N times three, the odd ones of them, added to all before, each of these and the two after
 * it, so many as N. Prints "timed WALL CPU 0 ANSWER", in nanoseconds.
 */
#define _GNU_SOURCE
#include "common.h"

__attribute__((noinline)) static int64_t chain(int64_t n)
{
    int64_t before = 0, left = n, sum = 0;
    for (int64_t k = 1; k <= n; k++) {
        int64_t x = k * 3;
        if (x % 2 == 0)
            continue;
        before += x;
        for (int64_t y = before; y < before + 3; y++) {
            if (left-- == 0)
                return sum;
            sum += y;
        }
    }
    return sum;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int64_t n = argc == 2 ? atoll(argv[1]) : 0;
    if (n < 1) {
        fprintf(stderr, "usage: fused N\n");
        return 2;
    }
    volatile int64_t before = chain(n + 1);
    (void)before;
    int64_t wall = now_ns(), cpu = cpu_ns();
    int64_t answer = chain(n);
    int64_t cpu_after = cpu_ns(), wall_after = now_ns();
    printf("timed %ld %ld 0 %ld\n", (long)(wall_after - wall), (long)(cpu_after - cpu), (long)answer);
    return 0;
}
