/*
 * The grammar of escapes (RFC 8259, section 7), once for the checker and the reader. The writer has its own choice of
 * escapes, a subset: see heddle_json_write.c.
 */
#ifndef HEDDLE_JSON_ESCAPE_H
#define HEDDLE_JSON_ESCAPE_H

#include <stdint.h>

/* The character of an escape of two bytes, by the byte after the backslash; 0 for bytes that begin none, and for 'u'. */
static const uint8_t escaped_character[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

/* The value of a hexadecimal digit; for other bytes the high bit is set. */
#define NONE_16 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128
static const uint8_t hex_digits[256] = {
    NONE_16, NONE_16, NONE_16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 128, 128, 128, 128, 128, 128,
    128, 10, 11, 12, 13, 14, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, NONE_16,
    128, 10, 11, 12, 13, 14, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, NONE_16,
    NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16,
};
#undef NONE_16

/* The value of a hexadecimal digit, or -1. */
static inline int hex_digit(uint8_t c)
{
    return hex_digits[c] & 128 ? -1 : hex_digits[c];
}

/* The value of four digits, or -1. */
static inline int32_t hex_unit(const uint8_t *p)
{
    uint32_t a = hex_digits[p[0]], b = hex_digits[p[1]], c = hex_digits[p[2]], d = hex_digits[p[3]];
    return (a | b | c | d) & 128 ? -1 : (int32_t)(a << 12 | b << 8 | c << 4 | d);
}

#endif
