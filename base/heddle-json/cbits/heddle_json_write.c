/*
 * Implements heddle_json_write.h.
 *
 * Units that stand for themselves are found and copied a vector at a time. From the first one that does not, one
 * character at a time is written, until one stands for itself again. Stores may exceed what a step keeps, never the
 * room.
 */
#include "heddle_json_write.h"

#include "heddle_cpu.h"

#include <string.h>

#if HEDDLE_X86_KERNELS
#include <immintrin.h>
#define SSE4 __attribute__((target("sse4.2,popcnt")))
#define AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512cd,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")))
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t both(int64_t taken, int64_t written)
{
    return taken | written << 32;
}

/* Does the byte stand for itself? */
INLINE int plain(uint32_t unit)
{
    return unit - 0x20 < 0x60 && unit != '"' && unit != '\\';
}

/* The length of the escape of an ASCII character. */
INLINE int escape_length(uint32_t unit)
{
    return unit == '"' || unit == '\\' || unit == '\n' || unit == '\r' || unit == '\t' ? 2 : 6;
}

INLINE uint8_t *escape(uint8_t *out, uint32_t unit)
{
    static const char hex[] = "0123456789abcdef";
    out[0] = '\\';
    switch (unit) {
    case '"':
    case '\\': out[1] = (uint8_t)unit; return out + 2;
    case '\n': out[1] = 'n'; return out + 2;
    case '\r': out[1] = 'r'; return out + 2;
    case '\t': out[1] = 't'; return out + 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = (uint8_t)hex[unit >> 4];
    out[5] = (uint8_t)hex[unit & 15];
    return out + 6;
}

/*
 * Writes one character of UTF-16 at *i; 0 if there is no room for it.
 */
INLINE uint8_t *one16(const uint16_t *in, int64_t *i, int64_t length, uint8_t *out, const uint8_t *end)
{
    uint32_t unit = in[*i];
    int64_t room = end - out;
    if (unit < 0x80) {
        if (plain(unit)) {
            if (room < 1) return 0;
            *out++ = (uint8_t)unit;
        } else {
            if (room < escape_length(unit)) return 0;
            out = escape(out, unit);
        }
        ++*i;
        return out;
    }
    if (unit < 0x800) {
        if (room < 2) return 0;
        out[0] = (uint8_t)(0xc0 | unit >> 6);
        out[1] = (uint8_t)(0x80 | (unit & 63));
        ++*i;
        return out + 2;
    }
    if ((unit & 0xf800) == 0xd800) {
        if (unit < 0xdc00 && *i + 1 < length && (in[*i + 1] & 0xfc00) == 0xdc00) {
            uint32_t code = 0x10000 + ((unit & 0x3ff) << 10 | (in[*i + 1] & 0x3ff));
            if (room < 4) return 0;
            out[0] = (uint8_t)(0xf0 | code >> 18);
            out[1] = (uint8_t)(0x80 | (code >> 12 & 63));
            out[2] = (uint8_t)(0x80 | (code >> 6 & 63));
            out[3] = (uint8_t)(0x80 | (code & 63));
            *i += 2;
            return out + 4;
        }
        unit = 0xfffd;
    }
    if (room < 3) return 0;
    out[0] = (uint8_t)(0xe0 | unit >> 12);
    out[1] = (uint8_t)(0x80 | (unit >> 6 & 63));
    out[2] = (uint8_t)(0x80 | (unit & 63));
    ++*i;
    return out + 3;
}

/*
 * The length of the character at `in`; if negative, the length of the maximal part of an ill-formed sequence. The first
 * byte is above 0x7f.
 */
INLINE int sequence(const uint8_t *in, int64_t length)
{
    uint8_t lead = in[0], low = 0x80, high = 0xbf;
    int bytes;
    if (lead < 0xc2 || lead > 0xf4) return -1;
    bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (length < 2 || in[1] < low || in[1] > high) return -1;
    for (int k = 2; k < bytes; k++)
        if (k >= length || (in[k] & 0xc0) != 0x80) return -k;
    return bytes;
}

/* Writes one character of UTF-8 at *i; 0 if there is no room for it. */
INLINE uint8_t *one8(const uint8_t *in, int64_t *i, int64_t length, uint8_t *out, const uint8_t *end)
{
    uint8_t byte = in[*i];
    int64_t room = end - out;
    if (byte < 0x80) {
        if (plain(byte)) {
            if (room < 1) return 0;
            *out++ = byte;
        } else {
            if (room < escape_length(byte)) return 0;
            out = escape(out, byte);
        }
        ++*i;
        return out;
    }
    int bytes = sequence(in + *i, length - *i);
    if (bytes < 0) {
        if (room < 3) return 0;
        memcpy(out, "\xef\xbf\xbd", 3);
        *i -= bytes;
        return out + 3;
    }
    if (room < bytes) return 0;
    for (int k = 0; k < bytes; k++) out[k] = in[*i + k];
    *i += bytes;
    return out + bytes;
}

/* 16-bit units. */

/* Character by character: the last ones at every level, and all at the lowest. */
INLINE int64_t rest16(const uint16_t *in, int64_t i, int64_t length, int64_t most, uint8_t *start, uint8_t *out,
                      const uint8_t *end)
{
    while (i < most) {
        uint8_t *next = one16(in, &i, length, out, end);
        if (!next) break;
        out = next;
    }
    return both(i, out - start);
}

static int64_t utf16_plain(const uint16_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    return rest16(in, 0, length, most, start, start, start + room);
}

/* Writes from a unit that does not stand for itself to the next one that does; stops a vector before the end of the room. */
#define SPECIAL(one, in, i, most, length, out, end)                                                                    \
    do {                                                                                                               \
        uint8_t *next = one(in, &i, length, out, end);                                                                 \
        if (!next) return both(i, out - start);                                                                        \
        out = next;                                                                                                    \
    } while (i < most && in[i] > 0x7f)

#if HEDDLE_X86_KERNELS

SSE4 INLINE int special16_sse4(__m128i v)
{
    __m128i high = _mm_cmpeq_epi16(_mm_min_epu16(v, _mm_set1_epi16(0x7f)), v);
    __m128i low = _mm_cmpgt_epi16(v, _mm_set1_epi16(0x1f));
    __m128i marks =
        _mm_or_si128(_mm_cmpeq_epi16(v, _mm_set1_epi16('"')), _mm_cmpeq_epi16(v, _mm_set1_epi16('\\')));
    return _mm_movemask_epi8(_mm_andnot_si128(marks, _mm_and_si128(high, low))) ^ 0xffff;
}

SSE4 static int64_t utf16_sse4(const uint16_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    uint8_t *out = start, *end = start + room;
    int64_t i = 0;
    while (i + 8 <= most && end - out >= 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(in + i));
        int special = special16_sse4(v);
        _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(v, v));
        if (!special) {
            i += 8;
            out += 8;
            continue;
        }
        int good = __builtin_ctz((unsigned)special) / 2;
        i += good;
        out += good;
        SPECIAL(one16, in, i, most, length, out, end);
    }
    return rest16(in, i, length, most, start, out, end);
}

/*
 * Writes units from *at on that are neither ASCII nor halves of pairs, 16 at a time: each as one to three bytes in a
 * lane of four; then the lanes are compressed. Ends before any other unit, and 48 bytes before the end of the room.
 */
AVX512 static __attribute__((noinline)) uint8_t *wide16(const uint16_t *in, int64_t *at, int64_t most, uint8_t *out, const uint8_t *end)
{
    const __m512i low = _mm512_set1_epi32(63), high = _mm512_set1_epi32(0x80);
    int64_t i = *at;
    while (i + 16 <= most && end - out >= 48) {
        __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(in + i)));
        unsigned stop = _mm512_cmplt_epu32_mask(u, high) |
                        _mm512_cmpeq_epu32_mask(_mm512_and_si512(u, _mm512_set1_epi32(0xf800)),
                                                _mm512_set1_epi32(0xd800));
        unsigned count = stop ? (unsigned)__builtin_ctz(stop) : 16;
        __mmask16 here = (__mmask16)_bzhi_u32(0xffff, count);
        __mmask16 two = _mm512_cmplt_epu32_mask(u, _mm512_set1_epi32(0x800));
        __m512i top = _mm512_or_si512(_mm512_srli_epi32(u, 12), _mm512_set1_epi32(0xe0));
        __m512i middle = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(u, 6), low),
                                         _mm512_mask_blend_epi32(two, high, _mm512_set1_epi32(0xc0)));
        __m512i bottom = _mm512_or_si512(_mm512_and_si512(u, low), high);
        __m512i bytes = _mm512_or_si512(_mm512_or_si512(top, _mm512_slli_epi32(middle, 8)),
                                        _mm512_slli_epi32(bottom, 16));
        /* A character of two bytes does not need the first of its lane's three. */
        __mmask64 wanted = _mm512_movepi8_mask(
            _mm512_maskz_mov_epi32(here, _mm512_mask_blend_epi32(two, _mm512_set1_epi32(0x00808080),
                                                                 _mm512_set1_epi32(0x00808000))));
        bytes = _mm512_maskz_compress_epi8(wanted, bytes);
        _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(bytes));
        _mm_storeu_si128((__m128i *)(out + 32), _mm512_extracti32x4_epi32(bytes, 2));
        out += __builtin_popcountll(wanted);
        i += count;
        if (stop) break;
    }
    *at = i;
    return out;
}

AVX2 INLINE uint32_t special16_avx2(__m256i v)
{
    __m256i high = _mm256_cmpeq_epi16(_mm256_min_epu16(v, _mm256_set1_epi16(0x7f)), v);
    __m256i low = _mm256_cmpgt_epi16(v, _mm256_set1_epi16(0x1f));
    __m256i marks =
        _mm256_or_si256(_mm256_cmpeq_epi16(v, _mm256_set1_epi16('"')), _mm256_cmpeq_epi16(v, _mm256_set1_epi16('\\')));
    return ~(uint32_t)_mm256_movemask_epi8(_mm256_andnot_si256(marks, _mm256_and_si256(high, low)));
}

/*
 * Remainders are read by two overlapping loads; one load with a mask is slow on some machines.
 */
AVX2 INLINE int64_t utf16_vector(const uint16_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room,
                                 int wide)
{
    uint8_t *out = start, *end = start + room;
    int64_t i = 0;
    while (most - i >= 4 && end - out >= 16) {
        int64_t left = most - i;
        int good;
        if (left >= 16) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(in + i));
            uint32_t special = special16_avx2(v);
            _mm_storeu_si128((__m128i *)out,
                             _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
            good = special ? __builtin_ctz(special) / 2 : 16;
            i += good;
            out += good;
            if (!special) continue;
        } else if (left >= 8) {
            __m128i v = _mm_loadu_si128((const __m128i *)(in + i));
            __m128i w = _mm_loadu_si128((const __m128i *)(in + most - 8));
            int special = special16_sse4(v);
            _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(v, v));
            if (!(special | special16_sse4(w))) {
                _mm_storel_epi64((__m128i *)(out + left - 8), _mm_packus_epi16(w, w));
                return both(most, out + left - start);
            }
            good = special ? __builtin_ctz((unsigned)special) / 2 : 8;
            i += good;
            out += good;
            if (!special) continue;
        } else {
            __m128i v = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(in + i)),
                                           _mm_loadl_epi64((const __m128i *)(in + most - 4)));
            int special = special16_sse4(v);
            __m128i bytes = _mm_packus_epi16(v, v);
            _mm_storeu_si32(out, bytes);
            if (!special) {
                _mm_storeu_si32(out + left - 4, _mm_srli_si128(bytes, 4));
                return both(most, out + left - start);
            }
            good = __builtin_ctz((unsigned)special) / 2;
            if (good >= 4) {
                i += 4;
                out += 4;
                continue;
            }
            i += good;
            out += good;
        }
        if (wide && in[i] > 0x7f) {
            out = wide16(in, &i, most, out, end);
            if (i >= most || in[i] < 0x80) continue;
        }
        SPECIAL(one16, in, i, most, length, out, end);
    }
    return rest16(in, i, length, most, start, out, end);
}

AVX2 static int64_t utf16_avx2(const uint16_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    return utf16_vector(in, length, most, start, room, 0);
}

AVX512 static int64_t utf16_avx512(const uint16_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    return utf16_vector(in, length, most, start, room, 1);
}

#endif

int64_t heddle_json_write_utf16(const uint16_t *array, int64_t offset, int64_t length, int64_t most, uint8_t *out,
                          int64_t room, int32_t level)
{
    const uint16_t *in = array + offset;
    switch (level) {
#if HEDDLE_X86_KERNELS
    case HEDDLE_CPU_AVX512: return utf16_avx512(in, length, most, out, room);
    case HEDDLE_CPU_AVX2: return utf16_avx2(in, length, most, out, room);
    case HEDDLE_CPU_SSE4: return utf16_sse4(in, length, most, out, room);
#endif
    default: return utf16_plain(in, length, most, out, room);
    }
}

/* Bytes. */

INLINE int64_t rest8(const uint8_t *in, int64_t i, int64_t length, int64_t most, uint8_t *start, uint8_t *out,
                     const uint8_t *end)
{
    while (i < most) {
        uint8_t *next = one8(in, &i, length, out, end);
        if (!next) break;
        out = next;
    }
    return both(i, out - start);
}

static int64_t utf8_plain(const uint8_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    return rest8(in, 0, length, most, start, start, start + room);
}

#if HEDDLE_X86_KERNELS

SSE4 static int64_t utf8_sse4(const uint8_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    uint8_t *out = start, *end = start + room;
    int64_t i = 0;
    while (i + 16 <= most && end - out >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(in + i));
        /* As signed bytes, those above 0x7f are below 0x20 too. */
        __m128i bad = _mm_or_si128(
            _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)),
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
        int special = _mm_movemask_epi8(bad);
        _mm_storeu_si128((__m128i *)out, v);
        int good = special ? __builtin_ctz((unsigned)special) : 16;
        i += good;
        out += good;
        if (special) SPECIAL(one8, in, i, most, length, out, end);
    }
    return rest8(in, i, length, most, start, out, end);
}

AVX2 static int64_t utf8_avx2(const uint8_t *in, int64_t length, int64_t most, uint8_t *start, int64_t room)
{
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'), blank = _mm256_set1_epi8(0x20);
    uint8_t *out = start, *end = start + room;
    int64_t i = 0;
    while (i + 32 <= most && end - out >= 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(in + i));
        __m256i bad = _mm256_or_si256(_mm256_cmpgt_epi8(blank, v),
                                      _mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, backslash)));
        uint32_t special = (uint32_t)_mm256_movemask_epi8(bad);
        _mm256_storeu_si256((__m256i *)out, v);
        int good = special ? __builtin_ctz(special) : 32;
        i += good;
        out += good;
        if (special) SPECIAL(one8, in, i, most, length, out, end);
    }
    return rest8(in, i, length, most, start, out, end);
}

#endif

int64_t heddle_json_write_utf8(const uint8_t *text, int64_t length, int64_t most, uint8_t *out, int64_t room,
                         int32_t level)
{
    switch (level) {
#if HEDDLE_X86_KERNELS
    case HEDDLE_CPU_AVX512:
    case HEDDLE_CPU_AVX2: return utf8_avx2(text, length, most, out, room);
    case HEDDLE_CPU_SSE4: return utf8_sse4(text, length, most, out, room);
#endif
    default: return utf8_plain(text, length, most, out, room);
    }
}

int64_t heddle_json_write_utf8_array(const uint8_t *array, int64_t offset, int64_t length, int64_t most, uint8_t *out,
                          int64_t room, int32_t level)
{
    return heddle_json_write_utf8(array + offset, length, most, out, room, level);
}
