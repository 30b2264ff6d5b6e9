/*
 * Doubles in C: written with 17 digits, as the C library can, or read.
 *
 *   bytes_double snprintf|strtod N
 *
 * The numbers are those of bench-bytes-doubles; texts are read that are as short as they can be. Prints "timed WALL CPU 0 ANSWER", in nanoseconds.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "common.h"

#define COUNT 16384

static double numbers[COUNT];
static char text[COUNT * 32];
static char *places[COUNT];

static uint64_t step(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static int64_t writing(int64_t n)
{
    char out[64];
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += snprintf(out, sizeof out, "%.17g,", numbers[i & (COUNT - 1)]);
    return total;
}

static int64_t reading(int64_t n)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = strtod(places[i & (COUNT - 1)], NULL);
        uint64_t bits;
        memcpy(&bits, &x, 8);
        total += bits;
    }
    return (int64_t)total;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int64_t n = argc == 3 ? atoll(argv[2]) : 0;
    int reads = argc == 3 && strcmp(argv[1], "strtod") == 0;
    if (n < 1 || (!reads && strcmp(argv[1], "snprintf") != 0)) {
        fprintf(stderr, "usage: bytes_double snprintf|strtod N\n");
        return 2;
    }
    uint64_t s = 88172645463325252u;
    char *p = text;
    for (int i = 0; i < COUNT; i++) {
        s = step(s);
        uint64_t bits = (s >> 52 & 0x7ff) == 0x7ff ? s ^ 0x0010000000000000 : s;
        if (i % 2 == 0)
            memcpy(&numbers[i], &bits, 8);
        else
            numbers[i] = (double)(s & 0xfffff) / 100;
        places[i] = p;
        p += sprintf(p, "%.17g", numbers[i]);
        /* As short as it can be. */
        for (int k = 1; k < 17; k++) {
            int len = sprintf(places[i], "%.*g", k, numbers[i]);
            if (strtod(places[i], NULL) == numbers[i]) {
                p = places[i] + len;
                break;
            }
            p = places[i] + sprintf(places[i], "%.17g", numbers[i]);
        }
        *p++ = 0;
    }
    int64_t (*way)(int64_t) = reads ? reading : writing;
    volatile int64_t before = way(n + 1);
    (void)before;
    int64_t wall = now_ns(), cpu = cpu_ns();
    int64_t answer = way(n);
    int64_t cpu_after = cpu_ns(), wall_after = now_ns();
    printf("timed %ld %ld 0 %ld\n", (long)(wall_after - wall), (long)(cpu_after - cpu), (long)answer);
    return 0;
}
