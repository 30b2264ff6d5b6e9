/*
 * Kernels for reading JSON: the ends and contents of strings, numbers, skipping of values.
 *
 * No level reads outside of [p, end), and all levels return the same answers. An answer is one word: an offset from p,
 * times 256, plus a status (enum heddle_json_read_status) and flags.
 */
#ifndef HEDDLE_JSON_READ_H
#define HEDDLE_JSON_READ_H

#include <stdint.h>

enum heddle_json_read_status {
    HEDDLE_JSON_READ_DONE = 0,
    HEDDLE_JSON_READ_MORE = 1,           /* Skip: call again from the offset; the state is kept. */
    HEDDLE_JSON_READ_OPEN = 2,           /* The bytes ended first. Skip: at the offset is a string longer than a slice. */
    HEDDLE_JSON_READ_CONTROL = 3,
    HEDDLE_JSON_READ_BAD_ESCAPE = 4,
    HEDDLE_JSON_READ_LONE = 5,
    HEDDLE_JSON_READ_UTF8 = 6,
    HEDDLE_JSON_READ_TRUNCATED = 7,
    HEDDLE_JSON_READ_DIGIT = 8,          /* A digit is expected here; the following name what else is expected. */
    HEDDLE_JSON_READ_VALUE = 9,
    HEDDLE_JSON_READ_KEY = 10,
    HEDDLE_JSON_READ_KEY_OR_END = 11,
    HEDDLE_JSON_READ_COLON = 12,
    HEDDLE_JSON_READ_COMMA_ARRAY = 13,
    HEDDLE_JSON_READ_COMMA_OBJECT = 14,
    HEDDLE_JSON_READ_TRUE = 15,
    HEDDLE_JSON_READ_FALSE = 16,
    HEDDLE_JSON_READ_NULL = 17,
    HEDDLE_JSON_READ_DEEP = 18,
    HEDDLE_JSON_READ_LONG_NUMBER = 19,
    HEDDLE_JSON_READ_VALUE_OR_END = 21,
    HEDDLE_JSON_READ_ZERO = 20           /* A digit after a leading zero. */
};

/* Flags of strings and of numbers; the five bits below are the status. */
enum {
    HEDDLE_JSON_READ_ESCAPED = 32,       /* A string with a backslash. */
    HEDDLE_JSON_READ_HIGH = 64,          /* A string with bytes from 0x80. */
    HEDDLE_JSON_READ_NEGATIVE = 32,
    HEDDLE_JSON_READ_FRACTION = 64,      /* A number with a point or an exponent. */
    HEDDLE_JSON_READ_INEXACT = 128       /* A number of more than 19 significant digits: the mantissa has the first 19. */
};

/* Finds the closing quote, from after the opening one: DONE, OPEN (at the end, or at a backslash that is the last byte),
   CONTROL. The flags describe the bytes before the offset. */
int64_t heddle_json_read_string(int level, const uint8_t *p, const uint8_t *end);

/* An upper bound of a string's 16-bit units; the exact number if the string is valid and has no backslash. */
int64_t heddle_json_read_units(int level, const uint8_t *p, const uint8_t *end);

/* Writes the contents of a string as UTF-16 to out[at..]: DONE, OPEN (at an incomplete escape or character), BAD_ESCAPE,
   LONE, UTF8. counts[0] is where in out it ended, in units. At most heddle_json_read_units are written. */
int64_t heddle_json_read_utf16(int level, const uint8_t *p, const uint8_t *end, uint16_t *out, int64_t at, int64_t *counts);

/* The same to UTF-8, which takes at most as many bytes as the text. */
int64_t heddle_json_read_utf8(int level, const uint8_t *p, const uint8_t *end, uint8_t *out, int64_t at, int64_t *counts);

/* The same without writing. */
int64_t heddle_json_read_check(int level, const uint8_t *p, const uint8_t *end);

/* Writes ASCII bytes without backslashes as UTF-16. */
void heddle_json_read_widen(int level, const uint8_t *p, int64_t length, uint16_t *out);

/* Scans a number: DONE, DIGIT, ZERO, TRUNCATED. out[0]: the first 19 significant digits; out[1]: the exponent of ten. */
int64_t heddle_json_read_number(const uint8_t *p, const uint8_t *end, uint64_t *out);

enum { HEDDLE_JSON_READ_SLICE = 32768 };

/* Skips the rest of an array or object, from after its opening bracket to after its closing one. state[0]: 0 at first
   for an array, 1 for an object, 2 after a key, 3 after a value; state[1]: the number of open brackets, 1 at first;
   state[2]: how many may be; state[3]: the longest number; state is words + 3.
   From words[8] on there is a bit for each level, 1 for an object. */
int64_t heddle_json_read_skip(int level, const uint8_t *p, const uint8_t *end, int64_t *words);

/* The number of commas before the first closing bracket, times 2, plus 1 if there is a bracket. */
int64_t heddle_json_read_commas(int level, const uint8_t *p, const uint8_t *end);

#endif
