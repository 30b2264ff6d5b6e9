/*
 * Implements the validation of heddle_utf8.h.
 *
 * The text is checked in blocks of 64 bytes. An ASCII block needs no further check. In others, Keiser and Lemire's
 * three tables ("Validating UTF-8 in less than one instruction per byte", 2020) find the blocks with an error, and
 * the plain loop finds the byte. A block is checked together with the vector before it; before an ASCII block, the
 * end of a block of another kind is checked separately. The rest of the text is copied into a block of zeros.
 */
#include "heddle_utf8.h"

#include <string.h>

#include "heddle_cpu.h"

static inline uint64_t load(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

static inline int within(uint8_t byte, uint8_t low, uint8_t high)
{
    return (uint8_t)(byte - low) <= (uint8_t)(high - low);
}

/* The same, a character at a time. */
static int64_t valid_plain(const uint8_t *p, int64_t length)
{
    int64_t at = 0;
    while (at < length) {
        uint8_t lead = p[at];
        int64_t left = length - at;
        if (lead < 0x80) {
            at++;
            while (at + 8 <= length && !(load(p + at) & 0x8080808080808080u)) at += 8;
        } else if (lead < 0xe0) {
            if (lead < 0xc2 || left < 2 || !within(p[at + 1], 0x80, 0xbf)) return at;
            at += 2;
        } else if (lead < 0xf0) {
            uint8_t low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
            if (left < 3 || !within(p[at + 1], low, high) || !within(p[at + 2], 0x80, 0xbf)) return at;
            at += 3;
        } else {
            uint8_t low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
            if (lead > 0xf4 || left < 4 || !within(p[at + 1], low, high) || !within(p[at + 2], 0x80, 0xbf) ||
                !within(p[at + 3], 0x80, 0xbf))
                return at;
            at += 4;
        }
    }
    return at;
}

#if HEDDLE_X86_KERNELS
#include <immintrin.h>

/* Does the text, if it is valid so far, end within a character? It has at least three bytes. */
static inline int unfinished(const uint8_t *end)
{
    return end[-1] >= 0xc0 || end[-2] >= 0xe0 || end[-3] >= 0xf0;
}

/* There is an error at `at` or shortly after it; the text before it is valid, and may end within a character. */
static int64_t valid_from(const uint8_t *p, int64_t at, int64_t length)
{
    int64_t start = at;
    while (start > 0 && at - start < 3 && (p[start - 1] & 0xc0) == 0x80) start--;
    if (start > 0 && p[start - 1] >= 0xc0)
        start--;
    else
        start = at;
    return start + valid_plain(p + start, length - start);
}

/* The possible errors of a byte and the one before it. */
enum {
    TOO_SHORT = 1 << 0,   /* A lead, and no continuation. */
    TOO_LONG = 1 << 1,    /* ASCII, and a continuation. */
    OVERLONG_3 = 1 << 2,  /* E0, and less than A0. */
    TOO_LARGE = 1 << 3,   /* F4 and 90 or more; F5 or more. */
    SURROGATE = 1 << 4,   /* ED, and A0 or more. */
    OVERLONG_2 = 1 << 5,  /* C0, C1. */
    OVERLONG_4 = 1 << 6,  /* F0, and less than 90; */
    TOO_LARGE_8 = 1 << 6, /* F5 or more, and the same. */
    TWO_MORE = 1 << 7,    /* Two continuations: right behind three- and four-byte leads. */
    ANY_LOW = TOO_SHORT | TOO_LONG | TWO_MORE
};

/* By the high half of the byte before, */
#define BEFORE_HIGH                                                                                                    \
    TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, (char)TWO_MORE, (char)TWO_MORE,    \
        (char)TWO_MORE, (char)TWO_MORE, TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE,         \
        TOO_SHORT | TOO_LARGE | TOO_LARGE_8 | OVERLONG_4
/* by its low half, */
#define LARGE (char)(ANY_LOW | TOO_LARGE | TOO_LARGE_8)
#define BEFORE_LOW                                                                                                     \
    (char)(ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4), (char)(ANY_LOW | OVERLONG_2), (char)ANY_LOW,               \
        (char)ANY_LOW, (char)(ANY_LOW | TOO_LARGE), LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE,            \
        (char)(LARGE | SURROGATE), LARGE, LARGE
/* and by the high half of the byte. */
#define CONTINUES (TOO_LONG | OVERLONG_2 | TWO_MORE)
#define THIS_HIGH                                                                                                      \
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,                            \
        (char)(CONTINUES | OVERLONG_3 | TOO_LARGE_8 | OVERLONG_4), (char)(CONTINUES | OVERLONG_3 | TOO_LARGE),         \
        (char)(CONTINUES | SURROGATE | TOO_LARGE), (char)(CONTINUES | SURROGATE | TOO_LARGE), TOO_SHORT, TOO_SHORT,    \
        TOO_SHORT, TOO_SHORT

#define TARGET __attribute__((target("sse4.2,popcnt")))
#define NAME(f) f##_sse4
#define WIDTH 16
#define VECTOR __m128i
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define TABLE(...) _mm_setr_epi8(__VA_ARGS__)
#define SPLAT(byte) _mm_set1_epi8((char)(byte))
#define ZERO _mm_setzero_si128()
#define LOOK_UP _mm_shuffle_epi8
#define HIGH_HALF(v) _mm_and_si128(_mm_srli_epi16(v, 4), SPLAT(0x0f))
#define AND _mm_and_si128
#define OR _mm_or_si128
#define XOR _mm_xor_si128
#define SUBTRACT _mm_subs_epu8
#define EARLIER(v, before, n) _mm_alignr_epi8(v, before, 16 - n)
#define CROSS(v, before) (before)
#define IS_ZERO(v) _mm_testz_si128(v, v)
#define IS_ASCII(v) (!_mm_movemask_epi8(v))
#include "heddle_utf8_check_level.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define NAME(f) f##_avx2
#define WIDTH 32
#define VECTOR __m256i
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define TABLE(...) _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__))
#define SPLAT(byte) _mm256_set1_epi8((char)(byte))
#define ZERO _mm256_setzero_si256()
#define LOOK_UP _mm256_shuffle_epi8
#define HIGH_HALF(v) _mm256_and_si256(_mm256_srli_epi16(v, 4), SPLAT(0x0f))
#define AND _mm256_and_si256
#define OR _mm256_or_si256
#define XOR _mm256_xor_si256
#define SUBTRACT _mm256_subs_epu8
#define EARLIER(v, cross, n) _mm256_alignr_epi8(v, cross, 16 - n)
#define CROSS(v, before) _mm256_permute2x128_si256(before, v, 0x21)
#define IS_ZERO(v) _mm256_testz_si256(v, v)
#define IS_ASCII(v) (!_mm256_movemask_epi8(v))
#include "heddle_utf8_check_level.h"

#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")))
#define NAME(f) f##_avx512
#define WIDTH 64
#define VECTOR __m512i
#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define TABLE(...) _mm512_broadcast_i32x4(_mm_setr_epi8(__VA_ARGS__))
#define SPLAT(byte) _mm512_set1_epi8((char)(byte))
#define ZERO _mm512_setzero_si512()
#define LOOK_UP _mm512_shuffle_epi8
#define HIGH_HALF(v) _mm512_and_si512(_mm512_srli_epi16(v, 4), SPLAT(0x0f))
#define AND _mm512_and_si512
#define OR _mm512_or_si512
#define XOR _mm512_xor_si512
#define SUBTRACT _mm512_subs_epu8
#define EARLIER(v, cross, n) _mm512_alignr_epi8(v, cross, 16 - n)
#define CROSS(v, before) _mm512_alignr_epi64(v, before, 6)
#define IS_ZERO(v) (!_mm512_test_epi8_mask(v, v))
#define IS_ASCII(v) (!_mm512_movepi8_mask(v))
#define LOAD_SOME(p, n) _mm512_maskz_loadu_epi8(((uint64_t)1 << (n)) - 1, p)
#include "heddle_utf8_check_level.h"
#endif

int64_t heddle_utf8_valid(int level, const uint8_t *p, int64_t length)
{
#if HEDDLE_X86_KERNELS
    switch (level) {
    case HEDDLE_CPU_SSE4:
        return valid_sse4(p, length);
    case HEDDLE_CPU_AVX2:
        return valid_avx2(p, length);
    case HEDDLE_CPU_AVX512:
        return valid_avx512(p, length);
    }
#else
    (void)level;
#endif
    return valid_plain(p, length);
}
