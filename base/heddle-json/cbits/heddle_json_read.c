/*
 * Implements the string functions of heddle_json_read.h.
 *
 * The end of a string is searched for a vector at a time, together with backslashes, control characters and bytes
 * beyond ASCII. Most strings end in the first vector and need nothing else.
 */
#include "heddle_cpu.h"
#include "heddle_json_escape.h"
#include "heddle_json_read.h"
#include "heddle_json_words.h"
#include "heddle_utf8.h"

/* The ends of strings. */

/* Scans the last bytes, and at level 0 all bytes, in words of 8 bytes. */
ALWAYS int64_t string_rest(const uint8_t *start, const uint8_t *p, const uint8_t *end, int64_t flags)
{
    for (;;) {
        while (end - p >= 8) {
            uint64_t word = load(p), high = word & tops;
            uint64_t stop = zeros(word ^ (ones * '"')) | zeros(word ^ (ones * '\\')) | zeros(word & (ones * 0xe0));
            if (stop) {
                unsigned bit = (unsigned)__builtin_ctzll(stop);
                if (high & ((1ull << bit) - 1)) flags |= HEDDLE_JSON_READ_HIGH;
                p += bit / 8;
                break;
            }
            if (high) flags |= HEDDLE_JSON_READ_HIGH;
            p += 8;
        }
        for (;; p++) {
            if (p >= end) return answer(p, start, flags | HEDDLE_JSON_READ_OPEN);
            uint8_t c = *p;
            if (c == '"') return answer(p, start, flags | HEDDLE_JSON_READ_DONE);
            if (c == '\\') break;
            if (c < 0x20) return answer(p, start, flags | HEDDLE_JSON_READ_CONTROL);
            if (c >= 0x80) flags |= HEDDLE_JSON_READ_HIGH;
        }
        if (end - p < 2) return answer(p, start, flags | HEDDLE_JSON_READ_OPEN);
        flags |= HEDDLE_JSON_READ_ESCAPED;
        /* The escape is checked later; here only an escaped quote must not end the string. */
        if (p[1] == '"' || p[1] == '\\') p += 2;
        else p += 1;
    }
}

static int64_t string_plain(const uint8_t *p, const uint8_t *end)
{
    return string_rest(p, p, end, 0);
}

#if HEDDLE_X86_KERNELS

/* One search for each level: WIDTH bytes at once, STEP sets stop and high. */
#define STRING_LOOP(WIDTH, MASK, STEP)                                                          \
    const uint8_t *start = p;                                                                   \
    int64_t flags = 0;                                                                          \
    while (end - p >= (WIDTH)) {                                                                \
        MASK stop, high;                                                                        \
        STEP                                                                                    \
        if (__builtin_expect(stop != 0, 1)) {                                                   \
            unsigned bit = (unsigned)__builtin_ctzll(stop);                                     \
            if (high & (((MASK)1 << bit) - 1)) flags |= HEDDLE_JSON_READ_HIGH;                       \
            p += bit;                                                                           \
            if (*p == '"') return answer(p, start, flags | HEDDLE_JSON_READ_DONE);                   \
            if (*p != '\\') return answer(p, start, flags | HEDDLE_JSON_READ_CONTROL);               \
            if (end - p < 2) return answer(p, start, flags | HEDDLE_JSON_READ_OPEN);                 \
            flags |= HEDDLE_JSON_READ_ESCAPED;                                                       \
            p += p[1] == '"' || p[1] == '\\' ? 2 : 1;                                           \
        } else {                                                                                \
            if (high) flags |= HEDDLE_JSON_READ_HIGH;                                                \
            p += (WIDTH);                                                                       \
        }                                                                                       \
    }                                                                                           \
    return string_rest(start, p, end, flags);

__attribute__((target("sse4.2,popcnt"))) static int64_t string_sse4(const uint8_t *p, const uint8_t *end)
{
    STRING_LOOP(16, uint32_t, {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
                                   _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v));
        stop = (uint32_t)_mm_movemask_epi8(hit);
        high = (uint32_t)_mm_movemask_epi8(v);
    })
}

__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))) static int64_t string_avx2(const uint8_t *p, const uint8_t *end)
{
    STRING_LOOP(32, uint64_t, {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i hit = _mm256_or_si256(
            _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')), _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'))),
            _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x1f)), v));
        stop = (uint32_t)_mm256_movemask_epi8(hit);
        high = (uint32_t)_mm256_movemask_epi8(v);
    })
}

#define AVX512 "avx512f,avx512dq,avx512cd,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt"

__attribute__((target(AVX512))) static int64_t string_avx512(const uint8_t *p, const uint8_t *end)
{
    STRING_LOOP(32, uint64_t, {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        stop = (uint64_t)(_mm256_cmpeq_epi8_mask(v, _mm256_set1_epi8('"')) | _mm256_cmpeq_epi8_mask(v, _mm256_set1_epi8('\\')) |
                          _mm256_cmplt_epu8_mask(v, _mm256_set1_epi8(0x20)));
        high = (uint32_t)_mm256_movepi8_mask(v);
    })
}

#endif

int64_t heddle_json_read_string(int level, const uint8_t *p, const uint8_t *end)
{
#if HEDDLE_X86_KERNELS
    switch (level) {
    case HEDDLE_CPU_AVX512: return string_avx512(p, end);
    case HEDDLE_CPU_AVX2: return string_avx2(p, end);
    case HEDDLE_CPU_SSE4: return string_sse4(p, end);
    }
#endif
    (void)level;
    return string_plain(p, end);
}

/* The contents of strings. */

/* The character of the escape at p, and its length in *length; or minus a status. */
ALWAYS int32_t escape(const uint8_t *p, const uint8_t *end, int *length)
{
    *length = 2;
    if (end - p < 2) return -HEDDLE_JSON_READ_OPEN;
    if (escaped_character[p[1]]) return escaped_character[p[1]];
    if (p[1] != 'u') return -HEDDLE_JSON_READ_BAD_ESCAPE;
    /* If an escape is cut off, an error in its existing bytes takes precedence. */
    if (end - p < 6) {
        for (const uint8_t *q = p + 2; q < end; q++)
            if (hex_digit(*q) < 0) return -HEDDLE_JSON_READ_BAD_ESCAPE;
        return -HEDDLE_JSON_READ_OPEN;
    }
    int unit = hex_unit(p + 2);
    if (unit < 0) return -HEDDLE_JSON_READ_BAD_ESCAPE;
    *length = 6;
    if (unit < 0xd800 || unit > 0xdfff) return unit;
    if (unit > 0xdbff) return -HEDDLE_JSON_READ_LONE;
    if (end - p < 12) {
        const uint8_t *q = p + 6;
        if (q < end && *q != '\\') return -HEDDLE_JSON_READ_LONE;
        if (q + 1 < end && q[1] != 'u') return -HEDDLE_JSON_READ_LONE;
        if (q + 2 < end && (q[2] | 0x20) != 'd') return -HEDDLE_JSON_READ_LONE;
        if (q + 3 < end && hex_digit(q[3]) < 12) return -HEDDLE_JSON_READ_LONE;
        if (q + 4 < end && hex_digit(q[4]) < 0) return -HEDDLE_JSON_READ_LONE;
        return -HEDDLE_JSON_READ_OPEN;
    }
    if (p[6] != '\\' || p[7] != 'u') return -HEDDLE_JSON_READ_LONE;
    int low = hex_unit(p + 8);
    if (low < 0xdc00 || low > 0xdfff) return -HEDDLE_JSON_READ_LONE;
    *length = 12;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

ALWAYS int continues(uint8_t c)
{
    return (c & 0xc0) == 0x80;
}

/* The character at p, whose first byte is not ASCII, and its length in *length; or minus a status. */
ALWAYS int32_t character(const uint8_t *p, const uint8_t *end, int *length)
{
    uint8_t c = p[0];
    int64_t left = end - p;
    if (c >= 0xe0 && c < 0xf0) {
        uint8_t low = c == 0xe0 ? 0xa0 : 0x80, high = c == 0xed ? 0x9f : 0xbf;
        *length = 3;
        if (left >= 3) {
            if (p[1] < low || p[1] > high || !continues(p[2])) return -HEDDLE_JSON_READ_UTF8;
            return ((c & 15) << 12) | ((p[1] & 63) << 6) | (p[2] & 63);
        }
        if (left >= 2 && (p[1] < low || p[1] > high)) return -HEDDLE_JSON_READ_UTF8;
        return -HEDDLE_JSON_READ_OPEN;
    }
    if (c >= 0xc2 && c < 0xe0) {
        *length = 2;
        if (left < 2) return -HEDDLE_JSON_READ_OPEN;
        if (!continues(p[1])) return -HEDDLE_JSON_READ_UTF8;
        return ((c & 31) << 6) | (p[1] & 63);
    }
    if (c >= 0xf0 && c <= 0xf4) {
        uint8_t low = c == 0xf0 ? 0x90 : 0x80, high = c == 0xf4 ? 0x8f : 0xbf;
        *length = 4;
        if (left >= 2 && (p[1] < low || p[1] > high)) return -HEDDLE_JSON_READ_UTF8;
        if (left >= 3 && !continues(p[2])) return -HEDDLE_JSON_READ_UTF8;
        if (left < 4) return -HEDDLE_JSON_READ_OPEN;
        if (!continues(p[3])) return -HEDDLE_JSON_READ_UTF8;
        return ((c & 7) << 18) | ((p[1] & 63) << 12) | ((p[2] & 63) << 6) | (p[3] & 63);
    }
    return -HEDDLE_JSON_READ_UTF8;
}

enum sink { NOWHERE, UTF16, UTF8 };

/* Writes plain ASCII to the sink while there are 16 bytes (8 at level 0); returns how many. */
ALWAYS int64_t ascii_run(int level, enum sink sink, const uint8_t *p, const uint8_t *end, void *out, int64_t at)
{
    const uint8_t *start = p;
#if HEDDLE_X86_KERNELS
    if (level > HEDDLE_CPU_PLAIN) {
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)p);
            if (_mm_movemask_epi8(_mm_or_si128(v, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))))) break;
            int64_t to = at + (p - start);
            if (sink == UTF16) {
                uint16_t *o = (uint16_t *)out + to;
                _mm_storeu_si128((__m128i *)o, _mm_unpacklo_epi8(v, _mm_setzero_si128()));
                _mm_storeu_si128((__m128i *)(o + 8), _mm_unpackhi_epi8(v, _mm_setzero_si128()));
            } else if (sink == UTF8) {
                _mm_storeu_si128((__m128i *)((uint8_t *)out + to), v);
            }
            p += 16;
        }
        return p - start;
    }
#endif
    (void)level;
    while (end - p >= 8) {
        uint64_t word = load(p);
        if ((word & tops) | zeros(word ^ (ones * '\\'))) break;
        int64_t to = at + (p - start);
        if (sink == UTF16)
            for (int i = 0; i < 8; i++) ((uint16_t *)out)[to + i] = p[i];
        else if (sink == UTF8) memcpy((uint8_t *)out + to, p, 8);
        p += 8;
    }
    return p - start;
}

ALWAYS int64_t put(enum sink sink, int32_t c, const uint8_t *p, int length, void *out, int64_t at)
{
    if (sink == NOWHERE) return at;
    if (sink == UTF16) {
        uint16_t *o = (uint16_t *)out + at;
        if (c < 0x10000) {
            o[0] = (uint16_t)c;
            return at + 1;
        }
        o[0] = (uint16_t)(0xd7c0 + (c >> 10));
        o[1] = (uint16_t)(0xdc00 | (c & 0x3ff));
        return at + 2;
    }
    uint8_t *o = (uint8_t *)out + at;
    (void)p, (void)length;
    if (c < 0x80) {
        o[0] = (uint8_t)c;
        return at + 1;
    }
    if (c < 0x800) {
        o[0] = (uint8_t)(0xc0 | (c >> 6));
        o[1] = (uint8_t)(0x80 | (c & 63));
        return at + 2;
    }
    if (c < 0x10000) {
        o[0] = (uint8_t)(0xe0 | (c >> 12));
        o[1] = (uint8_t)(0x80 | ((c >> 6) & 63));
        o[2] = (uint8_t)(0x80 | (c & 63));
        return at + 3;
    }
    o[0] = (uint8_t)(0xf0 | (c >> 18));
    o[1] = (uint8_t)(0x80 | ((c >> 12) & 63));
    o[2] = (uint8_t)(0x80 | ((c >> 6) & 63));
    o[3] = (uint8_t)(0x80 | (c & 63));
    return at + 4;
}

/* From this many bytes without an escape on, calling the kernels pays. */
enum { STRETCH = 48 };

/* The next escape from p on, or end. There are at least STRETCH bytes. */
ALWAYS const uint8_t *next_escape(const uint8_t *p, const uint8_t *end)
{
    int at = 0;
#if HEDDLE_X86_KERNELS
    for (; at < STRETCH; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + at));
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        if (found) return p + at + __builtin_ctz(found);
    }
#endif
    const uint8_t *stop = memchr(p + at, '\\', (size_t)(end - p - at));
    return stop ? stop : end;
}

/* Writes characters without escapes to the sink, up to the first invalid one; returns how many bytes. */
ALWAYS int64_t stretch(int kernels, enum sink sink, const uint8_t *p, const uint8_t *stop, void *out, int64_t *at)
{
    int64_t length = heddle_utf8_valid(kernels, p, stop - p);
    if (sink == UTF16) {
        int64_t to = *at + heddle_utf8_units(kernels, p, length);
        *at = heddle_utf8_to_utf16(kernels, p, length, out, *at, to);
    } else if (sink == UTF8) {
        memcpy((uint8_t *)out + *at, p, (size_t)length);
        *at += length;
    }
    return length;
}

ALWAYS int64_t contents(int level, int kernels, enum sink sink, const uint8_t *p, const uint8_t *end, void *out, int64_t at,
                        int64_t *counts)
{
    /* Up to `looked` there is no escape, or too few bytes for the kernels. */
    const uint8_t *start = p, *looked = p;
    int64_t status = HEDDLE_JSON_READ_DONE;
    while (p < end) {
        int length;
        int32_t c = *p;
        /* With narrower vectors the kernels gain too little. */
        if (kernels == HEDDLE_CPU_AVX512 && c >= 0x80 && p >= looked && end - p >= STRETCH) {
            looked = next_escape(p, end);
            if (looked - p >= STRETCH) {
                p += stretch(kernels, sink, p, looked, out, &at);
                /* If it did not stop at an escape, the sequence there is ill-formed or cut off: see below. */
                continue;
            }
        }
        if (c < 0x80 && c != '\\') {
            int64_t run = ascii_run(level, sink, p, end, out, at);
            if (sink != NOWHERE) at += run;
            p += run;
            for (; p < end && (c = *p) < 0x80 && c != '\\'; p++) at = put(sink, c, p, 1, out, at);
            continue;
        }
        if (c == '\\') c = escape(p, end, &length);
        else c = character(p, end, &length);
        if (c < 0) {
            status = -c;
            break;
        }
        at = put(sink, c, p, length, out, at);
        p += length;
        /* A character of three bytes is usually followed by another. */
        while (length == 3 && end - p >= 3 && (*p & 0xf0) == 0xe0) {
            c = character(p, end, &length);
            if (c < 0) break;
            at = put(sink, c, p, 3, out, at);
            p += 3;
        }
    }
    if (counts) counts[0] = at;
    return answer(p, start, status);
}

int64_t heddle_json_read_utf16(int level, const uint8_t *p, const uint8_t *end, uint16_t *out, int64_t at, int64_t *counts)
{
    return level > HEDDLE_CPU_PLAIN ? contents(1, level, UTF16, p, end, out, at, counts)
                                    : contents(0, 0, UTF16, p, end, out, at, counts);
}

int64_t heddle_json_read_utf8(int level, const uint8_t *p, const uint8_t *end, uint8_t *out, int64_t at, int64_t *counts)
{
    return level > HEDDLE_CPU_PLAIN ? contents(1, level, UTF8, p, end, out, at, counts)
                                    : contents(0, 0, UTF8, p, end, out, at, counts);
}

int64_t heddle_json_read_check(int level, const uint8_t *p, const uint8_t *end)
{
    return level > HEDDLE_CPU_PLAIN ? contents(1, level, NOWHERE, p, end, 0, 0, 0)
                                    : contents(0, 0, NOWHERE, p, end, 0, 0, 0);
}

/* Every byte that does not continue a character counts as one unit; the first of four bytes counts as two. */

static int64_t units_plain(const uint8_t *p, const uint8_t *end)
{
    int64_t total = 0;
    for (; p < end; p++) total += !continues(*p) + (*p >= 0xf0);
    return total;
}

#if HEDDLE_X86_KERNELS

__attribute__((target("sse4.2,popcnt"))) static int64_t units_sse4(const uint8_t *p, const uint8_t *end)
{
    int64_t total = 0;
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        /* As signed bytes, 0x80..0xbf are those below -64. */
        unsigned more = (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8(-64)));
        unsigned four = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(v, _mm_set1_epi8((char)0xf0)), v));
        total += 16 - __builtin_popcount(more) + __builtin_popcount(four);
    }
    return total + units_plain(p, end);
}

__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))) static int64_t units_avx2(const uint8_t *p, const uint8_t *end)
{
    int64_t total = 0;
    for (; end - p >= 32; p += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        unsigned more = (unsigned)_mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_set1_epi8(-64), v));
        unsigned four = (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(v, _mm256_set1_epi8((char)0xf0)), v));
        total += 32 - __builtin_popcount(more) + __builtin_popcount(four);
    }
    return total + units_plain(p, end);
}

#endif

int64_t heddle_json_read_units(int level, const uint8_t *p, const uint8_t *end)
{
#if HEDDLE_X86_KERNELS
    if (level >= HEDDLE_CPU_AVX2) return units_avx2(p, end);
    if (level == HEDDLE_CPU_SSE4) return units_sse4(p, end);
#endif
    (void)level;
    return units_plain(p, end);
}

void heddle_json_read_widen(int level, const uint8_t *p, int64_t length, uint16_t *out)
{
    int64_t i = 0;
#if HEDDLE_X86_KERNELS
    if (level > HEDDLE_CPU_PLAIN) {
        const __m128i zero = _mm_setzero_si128();
        for (; length - i >= 16; i += 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(p + i));
            _mm_storeu_si128((__m128i *)(out + i), _mm_unpacklo_epi8(v, zero));
            _mm_storeu_si128((__m128i *)(out + i + 8), _mm_unpackhi_epi8(v, zero));
        }
        if (length - i >= 8) {
            _mm_storeu_si128((__m128i *)(out + i), _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(p + i)), zero));
            i += 8;
        }
        if (i == length) return;
        /* The last vector overlaps the previous one. */
        if (length >= 8) {
            i = length - 8;
            _mm_storeu_si128((__m128i *)(out + i), _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(p + i)), zero));
            return;
        }
        if (length - i >= 4) {
            uint32_t four;
            memcpy(&four, p + i, 4);
            _mm_storel_epi64((__m128i *)(out + i), _mm_unpacklo_epi8(_mm_cvtsi32_si128((int)four), zero));
            i += 4;
        }
    }
#endif
    (void)level;
    for (; i < length; i++) out[i] = p[i];
}
