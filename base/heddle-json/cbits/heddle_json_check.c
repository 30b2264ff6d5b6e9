/*
 * Implements heddle_json_check.h, with the files that it includes.
 *
 * One pass. Strings, white space and digits are skipped a vector at a time; all other bytes are processed one by one,
 * from label to label.
 */
#include "heddle_json_check.h"
#include "heddle_json_common.h"
#include "heddle_json_escape.h"

#include "heddle_cpu.h"

#if HEDDLE_X86_KERNELS
#include <immintrin.h>
#endif

enum state {
    VALUE, BETWEEN, VALUE_OR_CLOSE, KEY_OR_CLOSE, KEY, COLON, AFTER, DONE, SEPARATE, STRING, ESCAPE, HEX,
    LOW_BACKSLASH, LOW_U, LOW_HEX, UTF8, MINUS, ZERO, INTEGER, POINT, FRACTION, EXPONENT, SIGN, POWER, LITERAL,
    MARK, REFUSED
};

static const uint8_t words[3][8] = {"true", "false", "null"};

static inline int in_object(const struct heddle_json_check *check, int depth)
{
    return check->nesting[(depth - 1) >> 6] >> ((depth - 1) & 63) & 1;
}

static inline int begins_value(uint8_t c)
{
    return c == '"' || c == '{' || c == '[' || c == '-' || (uint8_t)(c - '0') <= 9 || c == 't' || c == 'f' || c == 'n';
}

/*
 * Skips characters beyond ASCII, up to the first that is ASCII, invalid, or within four bytes of the end. The bytes
 * of a character, the first one lowest, are compared with their pattern at once; then overlong forms, surrogates and
 * numbers beyond U+10FFFF are refused.
 */
static inline __attribute__((always_inline)) const uint8_t *one_by_one(const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 4) {
        uint32_t w = load32(p);
        if ((w & 0x00c0c0f0) == 0x008080e0) {
            uint32_t rest = w & 0x200f;
            if (rest == 0 || rest == 0x200d) return p;
            p += 3;
        } else if ((w & 0xc0e0) == 0x80c0) {
            if ((w & 0x1e) == 0) return p;
            p += 2;
        } else if ((w & 0xc0c0c0f8) == 0x808080f0) {
            uint32_t plane = (w & 7) << 2 | (w >> 12 & 3);
            if (plane == 0 || plane > 16) return p;
            p += 4;
        } else
            return p;
    }
    return p;
}

static inline const uint8_t *wide_plain(const uint8_t *p, const uint8_t *start, const uint8_t *end)
{
    (void)start;
    return one_by_one(p, end);
}

#define LEVEL 0
#define NAME(f) f##_plain
#define TARGET
#include "heddle_json_vector.h"
#include "heddle_json_check_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#if HEDDLE_X86_KERNELS

/* The errors that a half of a byte allows. */
enum {
    TOO_SHORT = 1, TOO_LONG = 2, OVERLONG_3 = 4, TOO_LARGE = 8, SURROGATE = 16, OVERLONG_2 = 32, TOO_LARGE_1000 = 64,
    OVERLONG_4 = 64, TWO_CONTINUE = 128, ANY_LOW = TOO_SHORT | TOO_LONG | TWO_CONTINUE
};

static const uint8_t utf8_before_high[16] = {
    TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
    TWO_CONTINUE, TWO_CONTINUE, TWO_CONTINUE, TWO_CONTINUE,
    TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE,
    TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4,
};

static const uint8_t utf8_before_low[16] = {
    ANY_LOW | OVERLONG_2 | OVERLONG_3 | OVERLONG_4, ANY_LOW | OVERLONG_2, ANY_LOW, ANY_LOW, ANY_LOW | TOO_LARGE,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000 | SURROGATE, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
};

static const uint8_t utf8_this_high[16] = {
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUE | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUE | OVERLONG_3 | TOO_LARGE,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUE | SURROGATE | TOO_LARGE,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUE | SURROGATE | TOO_LARGE,
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
};

#define LEVEL 1
#define NAME(f) f##_sse4
#define TARGET __attribute__((target("sse4.2,popcnt")))
#include "heddle_json_vector.h"
#include "heddle_json_wide.h"
#include "heddle_json_check_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#define LEVEL 2
#define NAME(f) f##_avx2
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#include "heddle_json_vector.h"
#include "heddle_json_wide.h"
#include "heddle_json_check_level.h"
#undef LEVEL
#undef NAME
#undef TARGET
#undef INLINE

#define LEVEL 3
#define NAME(f) f##_avx512
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512dq,avx512cd,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#include "heddle_json_vector.h"
#include "heddle_json_wide.h"
#include "heddle_json_check_level.h"

#endif

int heddle_json_check(int level, struct heddle_json_check *check, const uint8_t *text, int64_t length)
{
    switch (level) {
#if HEDDLE_X86_KERNELS
    case 1: return check_sse4(check, text, length);
    case 2: return check_avx2(check, text, length);
    case 3: return check_avx512(check, text, length);
#endif
    default: return check_plain(check, text, length);
    }
}

int heddle_json_check_end(struct heddle_json_check *check)
{
    int number = check->state == ZERO || check->state == INTEGER || check->state == FRACTION || check->state == POWER;
    if (check->state == REFUSED) return HEDDLE_JSON_WRONG;
    if (check->state == DONE || check->state == SEPARATE || (check->state == BETWEEN && !check->announced))
        return HEDDLE_JSON_MORE;
    if (number && check->depth == 0) {
        check->state = check->many ? SEPARATE : DONE;
        if (check->watched != 0 || !check->many) return HEDDLE_JSON_MORE;
        check->announced = 0;
        return HEDDLE_JSON_ENDS;
    }
    if (check->state == MARK) {
        check->offset = 0;
        check->reason = HEDDLE_JSON_VALUE;
    } else
        check->reason = HEDDLE_JSON_TRUNCATED;
    check->state = REFUSED;
    return HEDDLE_JSON_WRONG;
}
