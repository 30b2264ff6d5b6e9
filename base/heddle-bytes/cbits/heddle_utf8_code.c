/*
 * Implements the conversions of heddle_utf8.h between UTF-8 and UTF-16, and their lengths.
 *
 * To UTF-16: each byte is taken for the last one of its character, and gives a unit together with the two bytes
 * before it. Then the units of the bytes that are really last ones are moved together. A character of four bytes has
 * two units: the unit at its third byte, without its four lowest bits, is the first of them up to a constant; the
 * unit at its fourth byte is the second. To UTF-8: each unit becomes one, two or three bytes in a lane of four, and
 * the bytes are moved together. A surrogate becomes two bytes; the first byte of the second one has two bits of the
 * unit before it.
 */
#include "heddle_utf8.h"

#include <string.h>

#include "heddle_cpu.h"
#include "heddle_utf8_tables.h"

static inline uint64_t load(const void *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* A byte at a time, from the first byte of a character on. */

static int64_t characters_plain(const uint8_t *p, int64_t length)
{
    int64_t n = 0;
    for (int64_t i = 0; i < length; i++) n += (p[i] & 0xc0) != 0x80;
    return n;
}

static int64_t units_plain(const uint8_t *p, int64_t length)
{
    int64_t n = 0;
    for (int64_t i = 0; i < length; i++) n += ((p[i] & 0xc0) != 0x80) + (p[i] >= 0xf0);
    return n;
}

static int64_t to_utf16_plain(const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end)
{
    int64_t i = 0;
    while (i < length && at < end) {
        uint32_t lead = p[i];
        int64_t left = length - i;
        if (lead < 0x80) {
            array[at++] = (uint16_t)lead;
            i++;
            while (i + 8 <= length && at + 8 <= end && !(load(p + i) & 0x8080808080808080u))
                for (int k = 0; k < 8; k++) array[at++] = p[i++];
        } else if (lead < 0xe0) {
            if (left < 2) break;
            array[at++] = (uint16_t)((lead & 0x1f) << 6 | (p[i + 1] & 0x3f));
            i += 2;
        } else if (lead < 0xf0) {
            if (left < 3) break;
            array[at++] = (uint16_t)(lead << 12 | (p[i + 1] & 0x3fu) << 6 | (p[i + 2] & 0x3f));
            i += 3;
        } else {
            if (left < 4 || at + 2 > end) break;
            uint32_t code = (lead & 7) << 18 | (p[i + 1] & 0x3fu) << 12 | (p[i + 2] & 0x3fu) << 6 | (p[i + 3] & 0x3f);
            array[at++] = (uint16_t)(0xd7c0 + (code >> 10));
            array[at++] = (uint16_t)(0xdc00 | (code & 0x3ff));
            i += 4;
        }
    }
    return at;
}

static inline int surrogate(uint32_t unit)
{
    return (unit & 0xf800) == 0xd800;
}

static int64_t bytes_plain(const uint16_t *array, int64_t from, int64_t to)
{
    int64_t n = 0;
    for (int64_t i = from; i < to; i++) n += 1 + (array[i] > 0x7f) + (array[i] > 0x7ff && !surrogate(array[i]));
    return n;
}

static int64_t ascii_plain(const uint16_t *array, int64_t from, int64_t to, uint8_t *p)
{
    int64_t at = from;
    for (; at < to && array[at] < 0x80; at++) p[at - from] = (uint8_t)array[at];
    return at - from;
}

/* Continues after the unit before `at`, if that is not `from`. */
static int64_t to_utf8_plain(const uint16_t *array, int64_t from, int64_t at, int64_t to, uint8_t *p, int64_t out,
                             int64_t room)
{
    for (; at < to; at++) {
        uint32_t unit = array[at];
        if (unit < 0x80) {
            if (out + 1 > room) break;
            p[out++] = (uint8_t)unit;
        } else if (unit < 0x800) {
            if (out + 2 > room) break;
            p[out++] = (uint8_t)(0xc0 | unit >> 6);
            p[out++] = (uint8_t)(0x80 | (unit & 0x3f));
        } else if (!surrogate(unit)) {
            if (out + 3 > room) break;
            p[out++] = (uint8_t)(0xe0 | unit >> 12);
            p[out++] = (uint8_t)(0x80 | (unit >> 6 & 0x3f));
            p[out++] = (uint8_t)(0x80 | (unit & 0x3f));
        } else if (unit < 0xdc00) {
            if (out + 2 > room) break;
            uint32_t high = (unit & 0x3ff) + 0x40;
            p[out++] = (uint8_t)(0xf0 | high >> 8);
            p[out++] = (uint8_t)(0x80 | (high >> 2 & 0x3f));
        } else {
            if (out + 2 > room) break;
            uint32_t before = at > from ? array[at - 1] : 0;
            p[out++] = (uint8_t)(0x80 | (before & 3) << 4 | (unit >> 6 & 0xf));
            p[out++] = (uint8_t)(0x80 | (unit & 0x3f));
        }
    }
    return out;
}

#if HEDDLE_X86_KERNELS
#include <immintrin.h>

#define ALWAYS static inline __attribute__((always_inline))

static inline int64_t width_of(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The start of the character that continues at `at`; otherwise `at`. */
static inline int64_t start_of_open(const uint8_t *p, int64_t at)
{
    int64_t start = at - 1;
    while (start > 0 && at - start < 4 && (p[start] & 0xc0) == 0x80) start--;
    return start >= 0 && start + width_of(p[start]) > at ? start : at;
}

#define TARGET __attribute__((target("sse4.2,popcnt")))
#define NAME(f) f##_sse4
#define WIDTH 16
#define VECTOR __m128i
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define SPLAT8(byte) _mm_set1_epi8((char)(byte))
#define SPLAT16(unit) _mm_set1_epi16((short)(unit))
#define ZERO _mm_setzero_si128()
#define ADD8 _mm_add_epi8
#define ADD16 _mm_add_epi16
#define SUB8 _mm_sub_epi8
#define AND _mm_and_si128
#define GREATER8 _mm_cmpgt_epi8
#define EQUAL8 _mm_cmpeq_epi8
#define EQUAL16 _mm_cmpeq_epi16
#define MAX8 _mm_max_epu8
#define SUBTRACT16 _mm_subs_epu16
#define SUM8(v) sums_sse4(_mm_sad_epu8(v, ZERO))
#define SUM16(v) lanes_sse4(_mm_madd_epi16(v, SPLAT16(1)))

TARGET ALWAYS int64_t sums_sse4(__m128i v)
{
    return _mm_cvtsi128_si64(v) + _mm_extract_epi64(v, 1);
}

TARGET ALWAYS int64_t lanes_sse4(__m128i v)
{
    return sums_sse4(_mm_add_epi64(_mm_cvtepi32_epi64(v), _mm_cvtepi32_epi64(_mm_srli_si128(v, 8))));
}

#include "heddle_utf8_count_level.h"
#include "heddle_utf8_code_level.h"
#undef TARGET
#undef NAME
#undef WIDTH
#undef VECTOR
#undef LOAD
#undef SPLAT8
#undef SPLAT16
#undef ZERO
#undef ADD8
#undef ADD16
#undef SUB8
#undef AND
#undef GREATER8
#undef EQUAL8
#undef EQUAL16
#undef MAX8
#undef SUBTRACT16
#undef SUM8
#undef SUM16

#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define NAME(f) f##_avx2
#define WIDTH 32
#define VECTOR __m256i
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define SPLAT8(byte) _mm256_set1_epi8((char)(byte))
#define SPLAT16(unit) _mm256_set1_epi16((short)(unit))
#define ZERO _mm256_setzero_si256()
#define ADD8 _mm256_add_epi8
#define ADD16 _mm256_add_epi16
#define SUB8 _mm256_sub_epi8
#define AND _mm256_and_si256
#define GREATER8 _mm256_cmpgt_epi8
#define EQUAL8 _mm256_cmpeq_epi8
#define EQUAL16 _mm256_cmpeq_epi16
#define MAX8 _mm256_max_epu8
#define SUBTRACT16 _mm256_subs_epu16
#define SUM8(v) sums_avx2(_mm256_sad_epu8(v, ZERO))
#define SUM16(v) lanes_avx2(_mm256_madd_epi16(v, SPLAT16(1)))

TARGET ALWAYS int64_t sums_avx2(__m256i v)
{
    __m128i both = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return _mm_cvtsi128_si64(both) + _mm_extract_epi64(both, 1);
}

TARGET ALWAYS int64_t lanes_avx2(__m256i v)
{
    return sums_avx2(_mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)),
                                      _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1))));
}

#include "heddle_utf8_count_level.h"
#include "heddle_utf8_code_level.h"

#include "heddle_utf8_avx512.h"
#endif

#if HEDDLE_X86_KERNELS
#define CHOOSE(name, ...)                                                                                              \
    switch (level) {                                                                                                   \
    case HEDDLE_CPU_SSE4:                                                                                              \
        return name##_sse4(__VA_ARGS__);                                                                               \
    case HEDDLE_CPU_AVX2:                                                                                              \
        return name##_avx2(__VA_ARGS__);                                                                               \
    case HEDDLE_CPU_AVX512:                                                                                            \
        return name##_avx512(__VA_ARGS__);                                                                             \
    }
#else
#define CHOOSE(name, ...) (void)level;
#endif

int64_t heddle_utf8_characters(int level, const uint8_t *p, int64_t length)
{
    CHOOSE(characters, p, length)
    return characters_plain(p, length);
}

int64_t heddle_utf8_units(int level, const uint8_t *p, int64_t length)
{
    CHOOSE(units, p, length)
    return units_plain(p, length);
}

int64_t heddle_utf8_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end)
{
    CHOOSE(to_utf16, p, length, array, at, end)
    return to_utf16_plain(p, length, array, at, end);
}

int64_t heddle_utf16_bytes(int level, const uint16_t *array, int64_t from, int64_t to)
{
    CHOOSE(bytes, array, from, to)
    return bytes_plain(array, from, to);
}

int64_t heddle_utf16_ascii(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p)
{
    CHOOSE(ascii, array, from, to, p)
    return ascii_plain(array, from, to, p);
}

int64_t heddle_utf16_to_utf8(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p, int64_t room)
{
    CHOOSE(to_utf8, array, from, to, p, room)
    return to_utf8_plain(array, from, from, to, p, 0, room);
}
