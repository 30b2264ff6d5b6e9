/*
 * Implements the functions of heddle_json_read.h for numbers and for skipping values.
 *
 * Digits are read eight at a time. A value is skipped by a loop with one bit for each open level.
 */
#include "heddle_cpu.h"
#include "heddle_json_read.h"
#include "heddle_json_words.h"

/* Numbers. */

ALWAYS int is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

/* Are all eight bytes digits? */
ALWAYS int eight_digits(uint64_t word)
{
    return ((word & (ones * 0xf0)) | (((word + ones * 0x06) & (ones * 0xf0)) >> 4)) == ones * 0x33;
}

ALWAYS uint64_t eight_value(uint64_t word)
{
    word -= ones * '0';
    word = word * 10 + (word >> 8);
    return (((word & 0x000000ff000000ffu) * 0x000f424000000064u) + (((word >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u)) >> 32;
}

struct digits {
    uint64_t mantissa;
    int64_t taken;      /* Significant digits in the mantissa. */
    int64_t dropped;    /* Digits after them. */
};

ALWAYS const uint8_t *digits(const uint8_t *p, const uint8_t *end, struct digits *d)
{
    while (d->taken && d->taken <= 11 && !d->dropped && end - p >= 8 && eight_digits(load(p))) {
        d->mantissa = d->mantissa * 100000000u + eight_value(load(p));
        d->taken += 8;
        p += 8;
    }
    for (; p < end && is_digit(*p); p++) {
        if (d->taken < 19) {
            d->mantissa = d->mantissa * 10 + (uint64_t)(*p - '0');
            if (d->mantissa) d->taken++;
        } else d->dropped++;
    }
    return p;
}

ALWAYS int64_t number(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    const uint8_t *start = p, *from;
    struct digits d = {0, 0, 0};
    int64_t flags = 0, exponent = 0;
    if (p < end && *p == '-') {
        flags |= HEDDLE_JSON_READ_NEGATIVE;
        p++;
    }
    if (p >= end) return answer(p, start, HEDDLE_JSON_READ_TRUNCATED);
    if (!is_digit(*p)) return answer(p, start, HEDDLE_JSON_READ_DIGIT);
    if (*p == '0') {
        p++;
        if (p < end && is_digit(*p)) return answer(p, start, HEDDLE_JSON_READ_ZERO);
    } else p = digits(p, end, &d);
    if (p < end && *p == '.') {
        flags |= HEDDLE_JSON_READ_FRACTION;
        from = ++p;
        int64_t before = d.dropped;
        p = digits(p, end, &d);
        if (p == from) return answer(p, start, p >= end ? HEDDLE_JSON_READ_TRUNCATED : HEDDLE_JSON_READ_DIGIT);
        /* The digits of the fraction that are in the mantissa. */
        exponent = -((p - from) - (d.dropped - before));
        exponent += before;
    } else exponent = d.dropped;
    if (p < end && (*p | 0x20) == 'e') {
        flags |= HEDDLE_JSON_READ_FRACTION;
        int minus = 0;
        int64_t power = 0;
        p++;
        if (p < end && (*p == '+' || *p == '-')) minus = *p++ == '-';
        from = p;
        for (; p < end && is_digit(*p); p++)
            if (power < 100000000000000000) power = power * 10 + (*p - '0');
        if (p == from) return answer(p, start, p >= end ? HEDDLE_JSON_READ_TRUNCATED : HEDDLE_JSON_READ_DIGIT);
        exponent += minus ? -power : power;
    }
    if (d.dropped) flags |= HEDDLE_JSON_READ_INEXACT;
    out[0] = d.mantissa;
    out[1] = (uint64_t)exponent;
    return answer(p, start, flags);
}

int64_t heddle_json_read_number(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    return number(p, end, out);
}

/* Whole values. */

enum { ARRAY_BEGUN = 0, OBJECT_BEGUN = 1, KEY_READ = 2, VALUE_READ = 3, WANT_VALUE = 4, WANT_KEY = 5, WANT_COLON = 6 };

ALWAYS int64_t literal(const uint8_t *p, const uint8_t *end, const char *word, int length, const uint8_t *start, int64_t status)
{
    int i = 0;
    while (i < length && p + i < end && p[i] == (uint8_t)word[i]) i++;
    if (i == length) return 0;
    return answer(p + i, start, p + i >= end ? HEDDLE_JSON_READ_TRUNCATED : status);
}

int64_t heddle_json_read_skip(int level, const uint8_t *p, const uint8_t *end, int64_t *words)
{
    int64_t *state = words + 3;
    uint64_t *bits = (uint64_t *)(words + 8);
    const uint8_t *start = p, *stop = end - p > HEDDLE_JSON_READ_SLICE ? p + HEDDLE_JSON_READ_SLICE : end;
    int64_t now = state[0], depth = state[1], most = state[2], longest = state[3], a;
    uint64_t scratch[2];
    for (;;) {
        while (p < stop && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
        if (p >= stop) {
            state[0] = now;
            state[1] = depth;
            return answer(p, start, p >= end ? HEDDLE_JSON_READ_TRUNCATED : HEDDLE_JSON_READ_MORE);
        }
        uint8_t c = *p;
        int begun = 0;
        switch (now) {
        case VALUE_READ: {
            int object = (bits[depth >> 6] >> (depth & 63)) & 1;
            if (c == ',') {
                p++;
                now = object ? WANT_KEY : WANT_VALUE;
                continue;
            }
            if (c != (object ? '}' : ']')) return answer(p, start, object ? HEDDLE_JSON_READ_COMMA_OBJECT : HEDDLE_JSON_READ_COMMA_ARRAY);
        close:
            p++;
            now = VALUE_READ;
            if (--depth == 0) return answer(p, start, HEDDLE_JSON_READ_DONE);
            continue;
        }
        case OBJECT_BEGUN:
            if (c == '}') goto close;
            if (c != '"') return answer(p, start, HEDDLE_JSON_READ_KEY_OR_END);
            now = WANT_COLON;
            break;
        case WANT_KEY:
            if (c != '"') return answer(p, start, HEDDLE_JSON_READ_KEY);
            now = WANT_COLON;
            break;
        case WANT_COLON:
            if (c != ':') return answer(p, start, HEDDLE_JSON_READ_COLON);
            p++;
            now = WANT_VALUE;
            continue;
        case KEY_READ:
            now = WANT_COLON;
            continue;
        case ARRAY_BEGUN:
            if (c == ']') goto close;
            now = VALUE_READ;
            begun = 1;
            break;
        default:
            now = VALUE_READ;
            break;
        }
        switch (c) {
        case '"': {
            const uint8_t *slice = end - p > HEDDLE_JSON_READ_SLICE ? p + HEDDLE_JSON_READ_SLICE : end;
            a = heddle_json_read_string(level, p + 1, slice);
            if ((a & 31) == HEDDLE_JSON_READ_OPEN && slice < end) {
                state[0] = now == WANT_COLON ? KEY_READ : VALUE_READ;
                state[1] = depth;
                return answer(p, start, HEDDLE_JSON_READ_OPEN);
            }
            if (a & (HEDDLE_JSON_READ_ESCAPED | HEDDLE_JSON_READ_HIGH | 31)) {
                const uint8_t *close = p + 1 + (a >> 8);
                if (a & (HEDDLE_JSON_READ_ESCAPED | HEDDLE_JSON_READ_HIGH) || (a & 31) == HEDDLE_JSON_READ_OPEN) {
                    int64_t b = heddle_json_read_check(level, p + 1, (a & 31) == HEDDLE_JSON_READ_OPEN ? end : close);
                    int64_t why = b & 31;
                    if (why) {
                        /* Cut off by the quote or a control character, or by the end of the text. */
                        if (why == HEDDLE_JSON_READ_OPEN) {
                            if ((a & 31) == HEDDLE_JSON_READ_OPEN) return answer(end, start, HEDDLE_JSON_READ_TRUNCATED);
                            uint8_t at = p[1 + (b >> 8)];
                            why = at != '\\' ? HEDDLE_JSON_READ_UTF8
                                  : close - (p + 1 + (b >> 8)) >= 6 ? HEDDLE_JSON_READ_LONE : HEDDLE_JSON_READ_BAD_ESCAPE;
                        }
                        return answer(p + 1 + (b >> 8), start, why);
                    }
                }
                if ((a & 31) == HEDDLE_JSON_READ_OPEN) return answer(end, start, HEDDLE_JSON_READ_TRUNCATED);
                if (a & 31) return answer(close, start, a & 31);
            }
            p += 2 + (a >> 8);
            break;
        }
        case '{':
        case '[':
            if (depth >= most) return answer(p, start, HEDDLE_JSON_READ_DEEP);
            depth++;
            if (c == '{') bits[depth >> 6] |= 1ull << (depth & 63);
            else bits[depth >> 6] &= ~(1ull << (depth & 63));
            now = c == '{' ? OBJECT_BEGUN : ARRAY_BEGUN;
            p++;
            break;
        case 't':
            if ((a = literal(p, end, "true", 4, start, HEDDLE_JSON_READ_TRUE))) return a;
            p += 4;
            break;
        case 'f':
            if ((a = literal(p, end, "false", 5, start, HEDDLE_JSON_READ_FALSE))) return a;
            p += 5;
            break;
        case 'n':
            if ((a = literal(p, end, "null", 4, start, HEDDLE_JSON_READ_NULL))) return a;
            p += 4;
            break;
        case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9': {
            const uint8_t *most_end = end - p > longest ? p + longest + 1 : end;
            a = number(p, most_end, scratch);
            if (most_end < end && p + (a >> 8) >= most_end) return answer(p, start, HEDDLE_JSON_READ_LONG_NUMBER);
            if (a & 31) return answer(p + (a >> 8), start, a & 31);
            if ((a >> 8) > longest) return answer(p, start, HEDDLE_JSON_READ_LONG_NUMBER);
            p += a >> 8;
            break;
        }
        default:
            return answer(p, start, begun ? HEDDLE_JSON_READ_VALUE_OR_END : HEDDLE_JSON_READ_VALUE);
        }
    }
}

int64_t heddle_json_read_commas(int level, const uint8_t *p, const uint8_t *end)
{
    int64_t total = 0;
#if HEDDLE_X86_KERNELS
    if (level > HEDDLE_CPU_PLAIN) {
        for (; end - p >= 16; p += 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)p);
            unsigned close = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(']')));
            unsigned comma = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(',')));
            if (close) return (total + __builtin_popcount(comma & (close - 1) & ~close)) * 2 + 1;
            total += __builtin_popcount(comma);
        }
    }
#endif
    (void)level;
    for (; p < end && *p != ']'; p++) total += *p == ',';
    return total * 2 + (p < end);
}
