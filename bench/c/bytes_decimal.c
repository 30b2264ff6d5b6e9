/*
 * The floor of decimals: so many numbers of all lengths, each with a comma behind it, into memory
 * that grows as in Haskell. Two digits at a time by a table, from digits counted first, or eight at
 * a time in one word; the better is the contender.
 *
 *   bytes_decimal table|swar N
 *
 * Prints "timed WALL CPU 0 ANSWER", in nanoseconds; the answer is the sum of the bytes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "common.h"

uint64_t bench_sum(const unsigned char *p, size_t n);

static uint64_t numbers[65536];

static uint64_t step(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static const char digits[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static const uint64_t tens[20] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
    100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000,
    100000000000000000, 1000000000000000000, 10000000000000000000u,
};

static inline char *table(char *p, uint64_t n)
{
    int bits = 64 - __builtin_clzll(n | 1);
    int guess = (bits * 1233) >> 12;
    int count = guess + (guess < 20 && n >= tens[guess]);
    if (count == 0)
        count = 1;
    char *end = p + count, *q = end;
    while (n >= 100) {
        uint64_t h = n / 100;
        q -= 2;
        memcpy(q, digits + 2 * (n - 100 * h), 2);
        n = h;
    }
    if (n >= 10)
        memcpy(q - 2, digits + 2 * n, 2);
    else
        q[-1] = '0' + n;
    return end;
}

static inline uint64_t eight(uint64_t n)
{
    uint64_t high = (n * 109951163) >> 40;
    uint64_t fours = (n << 32) - high * 42949672959999;
    uint64_t hundreds = ((fours * 10486) >> 20) & 0x7f0000007f;
    uint64_t twos = (fours << 16) - hundreds * 6553599;
    uint64_t t = ((twos * 103) >> 10) & 0x000f000f000f000f;
    return (twos << 8) - t * 2559;
}

static inline char *leading(char *p, uint64_t d)
{
    int zeros = __builtin_ctzll(d | 0x0100000000000000) & 0x38;
    uint64_t w = (d + 0x3030303030303030) >> zeros;
    memcpy(p, &w, 8);
    return p + 8 - zeros / 8;
}

static inline char *whole(char *p, uint64_t d)
{
    uint64_t w = d + 0x3030303030303030;
    memcpy(p, &w, 8);
    return p + 8;
}

static inline char *swar(char *p, uint64_t n)
{
    if (n < 100000000)
        return leading(p, eight(n));
    uint64_t high = n / 100000000;
    if (n < 10000000000000000)
        return whole(leading(p, eight(high)), eight(n - 100000000 * high));
    uint64_t higher = high / 100000000;
    p = leading(p, eight(higher));
    p = whole(p, eight(high - 100000000 * higher));
    return whole(p, eight(n - 100000000 * high));
}

static int use_table;

__attribute__((noinline)) static uint64_t render(int64_t n)
{
    size_t room = 32768;
    char *memory = malloc(room), *p = memory, *end = memory + room;
    for (int64_t i = 0; i < n; i++) {
        if (end - p < 32) {
            size_t used = p - memory;
            room *= 2;
            memory = realloc(memory, room);
            p = memory + used;
            end = memory + room;
        }
        uint64_t x = numbers[i & 65535];
        p = use_table ? table(p, x) : swar(p, x);
        *p++ = ',';
    }
    uint64_t sum = bench_sum((unsigned char *)memory, p - memory);
    free(memory);
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
    int64_t n = argc == 3 ? atoll(argv[2]) : 0;
    use_table = argc == 3 && strcmp(argv[1], "table") == 0;
    if (n < 1 || (!use_table && strcmp(argv[1], "swar") != 0)) {
        fprintf(stderr, "usage: bytes_decimal table|swar N\n");
        return 2;
    }
    uint64_t s = 88172645463325252u;
    for (int i = 0; i < 65536; i++) {
        uint64_t a = step(s);
        s = step(a);
        numbers[i] = a >> (s & 63);
    }
    volatile uint64_t before = render(n + 1);
    (void)before;
    int64_t wall = now_ns(), cpu = cpu_ns();
    uint64_t answer = render(n);
    int64_t cpu_after = cpu_ns(), wall_after = now_ns();
    printf("timed %ld %ld 0 %ld\n", (long)(wall_after - wall), (long)(cpu_after - cpu), (long)answer);
    return 0;
}
