/*
 * An automaton that checks JSON (RFC 8259) in pieces of any size, and reports the exact place of an error.
 *
 * Its whole state is this struct: a copy continues independently. The nesting takes a bit for each level, so memory is
 * bounded by the depth limit.
 */
#ifndef HEDDLE_JSON_CHECK_H
#define HEDDLE_JSON_CHECK_H

#include <stdint.h>

enum heddle_json_answer {
    HEDDLE_JSON_MORE = 0,   /* All bytes were taken, and the text is valid so far. */
    HEDDLE_JSON_WRONG = 1,  /* See reason and offset. */
    HEDDLE_JSON_BEGINS = 2, /* The next byte begins a value of the watched depth. */
    HEDDLE_JSON_ENDS = 3,   /* The byte before was the last of such a value. */
    HEDDLE_JSON_DEEPER = 4  /* nesting is too small for the next level: call again with room for more. */
};

/* The order is known to Heddle.Json.Internal.Check. */
enum heddle_json_reason {
    HEDDLE_JSON_RIGHT, HEDDLE_JSON_TRUNCATED, HEDDLE_JSON_VALUE, HEDDLE_JSON_VALUE_OR_CLOSE,
    HEDDLE_JSON_KEY_OR_CLOSE, HEDDLE_JSON_KEY, HEDDLE_JSON_COLON, HEDDLE_JSON_COMMA_OR_BRACKET,
    HEDDLE_JSON_COMMA_OR_BRACE, HEDDLE_JSON_DIGIT, HEDDLE_JSON_LEADING_ZERO, HEDDLE_JSON_TRUE,
    HEDDLE_JSON_FALSE, HEDDLE_JSON_NULL, HEDDLE_JSON_SEPARATE, HEDDLE_JSON_ARRAY, HEDDLE_JSON_TRAILING,
    HEDDLE_JSON_CONTROL, HEDDLE_JSON_ESCAPE, HEDDLE_JSON_SURROGATE, HEDDLE_JSON_UTF8, HEDDLE_JSON_BOM,
    HEDDLE_JSON_LONG_NUMBER, HEDDLE_JSON_DEPTH
};

struct heddle_json_check {
    int64_t offset;         /* Bytes taken; after WRONG, the offset of the first wrong byte. */
    int64_t mark;           /* Start of the present number, escape or UTF-8 sequence. */
    int64_t number_limit;   /* The most characters of a number. */
    int32_t depth_limit;
    int32_t capacity;       /* The number of bits in nesting; a multiple of 64. */
    int32_t many;           /* May there be any number of values? */
    int32_t watched;        /* The depth of the values that are announced: 0, 1 (the text is an array), or -1. */
    int32_t depth;
    int32_t state;
    int32_t reason;
    uint32_t code;          /* The hexadecimal digits of an escape so far. */
    uint8_t count;          /* Digits, letters or continuation bytes that were read, or that are missing. */
    uint8_t low, high;      /* The range of the next continuation byte. */
    uint8_t literal;        /* Index of the present literal. */
    uint8_t key;            /* Is the string a key? */
    uint8_t announced;      /* Has the next value been announced? */
    uint8_t spare[2];
    uint64_t nesting[];     /* 1 for an object, 0 for an array. */
};

/* level: heddle_cpu.h. Takes bytes from the text, adds them to offset. */
int heddle_json_check(int level, struct heddle_json_check *check, const uint8_t *text, int64_t length);

/* Ends the text: MORE if it may end here, WRONG, or ENDS if that also ends a watched number. */
int heddle_json_check_end(struct heddle_json_check *check);

/* Adds a text's newlines to place[0]; place[1] counts the characters (bytes that do not continue one) after the last. */
void heddle_json_place(int level, int64_t *place, const uint8_t *text, int64_t length);

#endif
