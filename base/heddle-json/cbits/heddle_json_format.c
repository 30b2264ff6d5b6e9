/*
 * Implements heddle_json_format.h, with the files that it includes.
 *
 * Strings are copied a vector at a time. Minifying does not search for single strings: see minify_blocks.
 */
#include "heddle_json_format.h"
#include "heddle_json_check.h"
#include "heddle_json_common.h"

#include "heddle_cpu.h"

#if HEDDLE_X86_KERNELS
#include <immintrin.h>
#endif

enum state { BETWEEN, STRING, ESCAPED, SCALAR };

static inline int delimits(uint8_t c)
{
    return is_space(c) || c == ',' || c == ']' || c == '}' || c == ':' || c == '"' || c == '[' || c == '{';
}

/* A token that may be a whole value has ended. */
static inline void ended(struct heddle_json_format *format)
{
    format->state = BETWEEN;
    if (format->depth == 0 && format->layout != HEDDLE_JSON_MINIFIED) format->newline = 1;
}

static inline void begin_line(struct heddle_json_format *format)
{
    format->newline = 1;
    format->blanks = format->depth * format->indent;
}

/* Can the byte be written now? Otherwise a line must be begun first. */
static inline int settle(struct heddle_json_format *format, uint8_t c)
{
    int closes = c == ']' || c == '}';
    if (format->opened) {
        format->opened = 0;
        if (closes) {
            format->depth--;
            format->closing = 1;
            return 1;
        }
        begin_line(format);
        return 0;
    }
    if (!closes || format->closing) return 1;
    format->depth--;
    format->closing = 1;
    begin_line(format);
    return 0;
}

/* Called after a byte outside of strings, other than white space, has been written. */
static inline void step(struct heddle_json_format *format, uint8_t c)
{
    int indented = format->layout == HEDDLE_JSON_INDENTED;
    switch (c) {
    case '"':
        format->state = STRING;
        break;
    case '[': case '{':
        format->depth++;
        format->opened = indented;
        break;
    case ']': case '}':
        if (!indented) format->depth--;
        format->closing = 0;
        ended(format);
        break;
    case ',':
        if (indented) begin_line(format);
        break;
    case ':':
        if (indented) format->blanks = 1;
        break;
    default:
        if (format->layout != HEDDLE_JSON_MINIFIED) format->state = SCALAR;
    }
}

/* Copies short pieces as two overlapping halves of 16 bytes if there is room for that. */
static inline uint8_t *copy(uint8_t *o, const uint8_t *out_end, const uint8_t *from, const uint8_t *to, const uint8_t *end)
{
    int64_t n = to - from;
    if (n <= 32 && out_end - o >= 32 && end - from >= 32) {
        memcpy(o, from, 16);
        memcpy(o + 16, from + 16, 16);
    } else
        memcpy(o, from, (size_t)n);
    return o + n;
}

/* Collects the high bits of eight bytes into one byte. */
static inline uint8_t gather(uint64_t highs)
{
    return (uint8_t)((highs >> 7) * 0x0102040810204080ull >> 56);
}

static inline int64_t count_bits(uint64_t mask)
{
    mask -= mask >> 1 & 0x5555555555555555ull;
    mask = (mask & 0x3333333333333333ull) + (mask >> 2 & 0x3333333333333333ull);
    mask = (mask + (mask >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (int64_t)(mask * ONES >> 56);
}

#define LEVEL 0
#define NAME(f) f##_plain
#define TARGET
#include "heddle_json_vector.h"
#include "heddle_json_format_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#if HEDDLE_X86_KERNELS

#define MASKS(v, w) ((uint32_t)_mm256_movemask_epi8(v) | (uint64_t)(uint32_t)_mm256_movemask_epi8(w) << 32)

#define LEVEL 1
#define NAME(f) f##_sse4
#define TARGET __attribute__((target("sse4.2,popcnt")))
#include "heddle_json_vector.h"
#include "heddle_json_format_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#define LEVEL 2
#define NAME(f) f##_avx2
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#include "heddle_json_vector.h"
#include "heddle_json_format_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#define LEVEL 3
#define NAME(f) f##_avx512
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512dq,avx512cd,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#include "heddle_json_vector.h"
#include "heddle_json_format_level.h"

#endif

int64_t heddle_json_format(int level, struct heddle_json_format *format, const uint8_t *text, int64_t length,
                           uint8_t *out, int64_t room)
{
    switch (level) {
#if HEDDLE_X86_KERNELS
    case 1: return format_sse4(format, text, length, out, room);
    case 2: return format_avx2(format, text, length, out, room);
    case 3: return format_avx512(format, text, length, out, room);
#endif
    default: return format_plain(format, text, length, out, room);
    }
}

void heddle_json_format_end(struct heddle_json_format *format)
{
    if (format->state == SCALAR) ended(format);
}

void heddle_json_place(int level, int64_t *place, const uint8_t *text, int64_t length)
{
    switch (level) {
#if HEDDLE_X86_KERNELS
    case 1: place_sse4(place, text, length); return;
    case 2: place_avx2(place, text, length); return;
    case 3: place_avx512(place, text, length); return;
#endif
    default: place_plain(place, text, length);
    }
}
