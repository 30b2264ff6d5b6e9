/* The sum of bytes, by which benchmarks of writers compare their results. */
#include <stddef.h>
#include <stdint.h>

uint64_t bench_sum(const unsigned char *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n;) {
        size_t end = i + 65536 < n ? i + 65536 : n;
        uint32_t part = 0;
        for (; i < end; i++)
            part += p[i];
        sum += part;
    }
    return sum;
}
