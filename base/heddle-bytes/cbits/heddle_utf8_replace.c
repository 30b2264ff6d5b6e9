/*
 * Implements the replacing conversions of heddle_utf8.h, for UTF-8 that may be ill-formed.
 *
 * Errors come in groups: after one, the next few bytes are converted a character at a time, and vectors continue after
 * them if they had no error.
 */
#include "heddle_utf8.h"

#include <string.h>

#include "heddle_cpu.h"

enum { NEAR = 32, REPLACEMENT = 0xfffd };

enum form { UNITS, UTF16, BYTES, UTF8 };

/* The destination of the results, and their number, whether they are written or only counted. */
struct target {
    uint16_t *array;
    uint8_t *bytes;
    int64_t at, end;
};

/* The width of the character at p, with its code point; 0 if the end cuts it off; minus the length of a subpart. */
static inline int64_t look(const uint8_t *p, int64_t left, uint32_t *code)
{
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    int64_t width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (width == 1) {
        *code = lead;
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) return -1;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    uint32_t sum = lead & (0x7f >> width);
    for (int64_t i = 1; i < width; i++) {
        if (i == left) return 0;
        if (p[i] < low || p[i] > high) return -i;
        sum = sum << 6 | (p[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *code = sum;
    return width;
}

/* Writes one character; 0 if there is no room. */
static inline int give(enum form form, struct target *to, uint32_t code)
{
    int64_t width = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4, units = code < 0x10000 ? 1 : 2;
    int64_t size = form == UNITS || form == UTF16 ? units : width;
    if (to->end - to->at < size) return 0;
    if (form == UTF16) {
        uint16_t *out = to->array + to->at;
        out[0] = (uint16_t)(units == 1 ? code : 0xd7c0 + (code >> 10));
        if (units == 2) out[1] = (uint16_t)(0xdc00 | (code & 0x3ff));
    } else if (form == UTF8) {
        uint8_t *out = to->bytes + to->at;
        for (int64_t i = width - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3f));
        out[0] = (uint8_t)(width == 1 ? code : (0xf00 >> width & 0xff) | code);
    }
    to->at += size;
    return 1;
}

/* Converts a valid stretch. */
static inline int give_all(enum form form, struct target *to, int level, const uint8_t *p, int64_t length)
{
    int64_t size = form == UNITS ? heddle_utf8_units(level, p, length) : length;
    if (form == UTF16)
        to->at = heddle_utf8_to_utf16(level, p, length, to->array, to->at, to->end);
    else {
        if (to->end - to->at < size) return 0;
        if (form == UTF8) memcpy(to->bytes + to->at, p, (size_t)length);
        to->at += size;
    }
    return 1;
}

static inline __attribute__((always_inline)) int64_t replace(enum form form, int level, const uint8_t *p,
                                                             int64_t length, struct target to)
{
    int64_t at = 0, begin = to.at;
    while (at < length) {
        int64_t until = at + NEAR;
        while (at < length && at < until) {
            uint32_t code = REPLACEMENT;
            int64_t n = look(p + at, length - at, &code);
            if (n == 0 || !give(form, &to, code)) goto done;
            at += n > 0 ? n : -n;
            if (n < 0) until = at + NEAR;
        }
        if (at >= length) break;
        int64_t n = heddle_utf8_valid(level, p + at, length - at);
        if (!give_all(form, &to, level, p + at, n)) break;
        at += n;
    }
done:
    return at | (to.at - begin) << 32;
}

int64_t heddle_utf8_replaced_units(int level, const uint8_t *p, int64_t length)
{
    return replace(UNITS, level, p, length, (struct target){0, 0, 0, INT64_MAX});
}

int64_t heddle_utf8_replace_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at,
                                     int64_t end)
{
    return replace(UTF16, level, p, length, (struct target){array, 0, at, end});
}

int64_t heddle_utf8_replaced_bytes(int level, const uint8_t *p, int64_t length)
{
    return replace(BYTES, level, p, length, (struct target){0, 0, 0, INT64_MAX});
}

int64_t heddle_utf8_replace_to_utf8(int level, const uint8_t *p, int64_t length, uint8_t *out, int64_t room)
{
    return replace(UTF8, level, p, length, (struct target){0, out, 0, room});
}

int64_t heddle_utf8_replace_to_array(int level, const uint8_t *p, int64_t length, uint8_t *array, int64_t at,
                                     int64_t end)
{
    return heddle_utf8_replace_to_utf8(level, p, length, array + at, end - at);
}
