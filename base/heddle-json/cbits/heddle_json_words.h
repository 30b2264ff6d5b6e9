/*
 * Shared by the readers of JSON: words of eight bytes, and answers.
 */
#ifndef HEDDLE_JSON_WORDS_H
#define HEDDLE_JSON_WORDS_H

#include "heddle_cpu.h"

#include <stdint.h>
#include <string.h>

#if HEDDLE_X86_KERNELS
#include <immintrin.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))

static const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;

ALWAYS uint64_t load(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

ALWAYS int64_t answer(const uint8_t *p, const uint8_t *start, int64_t status)
{
    return (p - start) * 256 + status;
}

/* The top bit of each byte below 0x80 that is zero. */
ALWAYS uint64_t zeros(uint64_t word)
{
    return ~((((word & ~tops) + ~tops) | word) | ~tops);
}

#endif
