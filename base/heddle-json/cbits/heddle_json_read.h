/*
 * Reading JSON: where strings end, what they contain, numbers, and values to be skipped.
 *
 * Nothing is read outside of [p, end), at any level, and all levels give the same answers. Answers are one
 * word: an offset from p, times 256, plus a status (enum heddle_json_read_status) and flags.
 */
#ifndef HEDDLE_JSON_READ_H
#define HEDDLE_JSON_READ_H

#include <stdint.h>

enum heddle_json_read_status {
    HEDDLE_JSON_READ_DONE = 0,
    HEDDLE_JSON_READ_MORE = 1,           /* Skip: call again from the offset; the state is kept. */
    HEDDLE_JSON_READ_OPEN = 2,           /* The bytes ended first. Skip: a string, at the offset, that is longer than a slice. */
    HEDDLE_JSON_READ_CONTROL = 3,
    HEDDLE_JSON_READ_BAD_ESCAPE = 4,
    HEDDLE_JSON_READ_LONE = 5,
    HEDDLE_JSON_READ_UTF8 = 6,
    HEDDLE_JSON_READ_TRUNCATED = 7,
    HEDDLE_JSON_READ_DIGIT = 8,          /* A digit should be here; likewise the following. */
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
    HEDDLE_JSON_READ_ZERO = 20           /* A digit behind a leading zero. */
};

/* Flags of strings and of numbers; the status has the five bits below. */
enum {
    HEDDLE_JSON_READ_ESCAPED = 32,       /* A string with a backslash. */
    HEDDLE_JSON_READ_HIGH = 64,          /* A string with bytes from 0x80. */
    HEDDLE_JSON_READ_NEGATIVE = 32,
    HEDDLE_JSON_READ_FRACTION = 64,      /* A number with a point or an exponent. */
    HEDDLE_JSON_READ_INEXACT = 128       /* A number of more than 19 significant digits: the mantissa has the first 19. */
};

/* From behind the opening quote to the closing one: DONE, OPEN (at the end, or at a backslash that is the last byte),
   CONTROL. The flags are of what is before the offset. */
int64_t heddle_json_read_string(int level, const uint8_t *p, const uint8_t *end);

/* How many 16-bit units a string's bytes take at most; exactly so many if they are valid and have no backslash. */
int64_t heddle_json_read_units(int level, const uint8_t *p, const uint8_t *end);

/* The contents of a string as UTF-16, to out[at..]: DONE, OPEN (at something that is not complete), BAD_ESCAPE, LONE,
   UTF8. counts[0] is where in out it ended, in units. At most heddle_json_read_units are written. */
int64_t heddle_json_read_utf16(int level, const uint8_t *p, const uint8_t *end, uint16_t *out, int64_t at, int64_t *counts);

/* The same as UTF-8, which takes at most as many bytes as the text. */
int64_t heddle_json_read_utf8(int level, const uint8_t *p, const uint8_t *end, uint8_t *out, int64_t at, int64_t *counts);

/* The same, without a result. */
int64_t heddle_json_read_check(int level, const uint8_t *p, const uint8_t *end);

/* ASCII bytes without backslashes as UTF-16. */
void heddle_json_read_widen(int level, const uint8_t *p, int64_t length, uint16_t *out);

/* A number: DONE, DIGIT, ZERO, TRUNCATED. out[0]: the first 19 significant digits, out[1]: times ten to this power. */
int64_t heddle_json_read_number(const uint8_t *p, const uint8_t *end, uint64_t *out);

enum { HEDDLE_JSON_READ_SLICE = 32768 };

/* The rest of an array or object, from behind its opening bracket up to and with its closing one. state[0]: 0 at first
   for an array, 1 for an object, 2 behind a key, 3 behind a value; state[1]: how many brackets are open, 1 at first;
   state[2]: how many may be; state[3]: the longest number; state is words + 3.
   From words[8] on there is a bit for each level, 1 for an object. */
int64_t heddle_json_read_skip(int level, const uint8_t *p, const uint8_t *end, int64_t *words);

/* How many commas there are before the first closing bracket, times 2, plus 1 if there is one. */
int64_t heddle_json_read_commas(int level, const uint8_t *p, const uint8_t *end);

#endif
