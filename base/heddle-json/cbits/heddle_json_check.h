/*
 * An automaton that checks JSON (RFC 8259) in pieces of any size, and says exactly where a text is wrong.
 *
 * Its state is this struct and nothing else: copied, it goes on independently. The nesting is a bit for each
 * level, so that memory is bounded by the depth limit.
 */
#ifndef HEDDLE_JSON_CHECK_H
#define HEDDLE_JSON_CHECK_H

#include <stdint.h>

enum heddle_json_answer {
    HEDDLE_JSON_MORE = 0,   /* All bytes were taken, and are right so far. */
    HEDDLE_JSON_WRONG = 1,  /* reason says why, offset where. */
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
    int64_t offset;         /* Bytes taken; after WRONG, the wrong one's offset. */
    int64_t mark;           /* Where the number, the escape or the sequence began that the automaton is in. */
    int64_t number_limit;   /* Characters of a number, at most. */
    int32_t depth_limit;
    int32_t capacity;       /* Levels that nesting has bits for; a multiple of 64. */
    int32_t many;           /* Whether there may be any number of values. */
    int32_t watched;        /* The depth of the values that are announced: 0, 1 (the text is an array), or -1. */
    int32_t depth;
    int32_t state;
    int32_t reason;
    uint32_t code;          /* The hexadecimal digits of an escape so far. */
    uint8_t count;          /* Digits, letters or continuation bytes: how many were there, or are missing. */
    uint8_t low, high;      /* What the next continuation byte may be. */
    uint8_t literal;        /* Which one. */
    uint8_t key;            /* Whether the string is a key. */
    uint8_t announced;      /* Whether the next value has been announced. */
    uint8_t spare[2];
    uint64_t nesting[];     /* 1: an object. */
};

/* level: heddle_cpu.h. Takes bytes from the text, adds them to offset. */
int heddle_json_check(int level, struct heddle_json_check *check, const uint8_t *text, int64_t length);

/* The text ends here: MORE if it may, WRONG, or ENDS if a watched number ends with it. */
int heddle_json_check_end(struct heddle_json_check *check);

/* Adds a text's newlines to place[0]; place[1] counts the characters (bytes that do not continue one) behind the last. */
void heddle_json_place(int level, int64_t *place, const uint8_t *text, int64_t length);

#endif
