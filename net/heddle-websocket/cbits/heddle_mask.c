#include "heddle_mask.h"

#include <string.h>

#include "heddle_cpu.h"

/* The key as it lies in memory, twice. */
static uint64_t pattern_of(uint32_t key)
{
    uint8_t bytes[8];
    uint64_t word;
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(key >> (8 * (i & 3)));
    memcpy(&word, bytes, 8);
    return word;
}

static void mask_plain(uint8_t *to, const uint8_t *from, size_t length, uint32_t key)
{
    uint64_t pattern = pattern_of(key), word;
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        memcpy(&word, from + at, 8);
        word ^= pattern;
        memcpy(to + at, &word, 8);
    }
    /* Eight is a multiple of the key's length. */
    for (; at < length; at++) to[at] = from[at] ^ (uint8_t)(key >> (8 * (at & 3)));
}

#if HEDDLE_X86_KERNELS
#include <immintrin.h>

/* SSE2, which every processor of this kind has. */
static void mask_sse2(uint8_t *to, const uint8_t *from, size_t length, uint32_t key)
{
    __m128i pattern = _mm_set1_epi32((int)key);
    size_t at = 0;
    for (; at + 16 <= length; at += 16)
        _mm_storeu_si128((__m128i *)(to + at), _mm_xor_si128(_mm_loadu_si128((const __m128i *)(from + at)), pattern));
    mask_plain(to + at, from + at, length - at, key);
}

__attribute__((target("avx2"))) static void mask_avx2(uint8_t *to, const uint8_t *from, size_t length, uint32_t key)
{
    __m256i pattern = _mm256_set1_epi32((int)key);
    size_t at = 0;
    for (; at + 64 <= length; at += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(from + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + at + 32));
        _mm256_storeu_si256((__m256i *)(to + at), _mm256_xor_si256(a, pattern));
        _mm256_storeu_si256((__m256i *)(to + at + 32), _mm256_xor_si256(b, pattern));
    }
    mask_sse2(to + at, from + at, length - at, key);
}
#endif

void heddle_mask(int level, uint8_t *to, const uint8_t *from, size_t length, uint32_t key)
{
#if HEDDLE_X86_KERNELS
    if (level >= HEDDLE_CPU_AVX2 && length >= 64) {
        mask_avx2(to, from, length, key);
        return;
    }
    if (level >= HEDDLE_CPU_SSE4) {
        mask_sse2(to, from, length, key);
        return;
    }
#endif
    (void)level;
    mask_plain(to, from, length, key);
}
