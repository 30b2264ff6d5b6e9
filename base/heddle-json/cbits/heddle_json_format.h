/*
 * Lays JSON out anew: without white space, a value to a line, or indented. The text must have been found right
 * (heddle_json_check.h), as far as it is given; it comes in pieces of any size, and so may the room for the output.
 */
#ifndef HEDDLE_JSON_FORMAT_H
#define HEDDLE_JSON_FORMAT_H

#include <stdint.h>

enum heddle_json_layout {
    HEDDLE_JSON_MINIFIED = 0,   /* Nothing but what is needed; never longer than the text. */
    HEDDLE_JSON_LINES = 1,      /* The same, and a newline behind each value. */
    HEDDLE_JSON_INDENTED = 2    /* A line for each element; a newline behind each value. */
};

struct heddle_json_format {
    int64_t written;    /* By the last call. */
    int64_t blanks;     /* To be written before anything else, behind the newline. */
    int64_t depth;
    int32_t newline;    /* Whether one is to be written first. */
    int32_t layout;
    int32_t indent;     /* Blanks for each level. */
    int32_t state;
    int32_t opened;     /* Whether an array or object has just begun. */
    int32_t closing;    /* Whether the line of a closing bracket has begun. */
};

/* level: heddle_cpu.h. The bytes of the text that were taken; fewer than all only if the room is used up. */
int64_t heddle_json_format(int level, struct heddle_json_format *format, const uint8_t *text, int64_t length,
                           uint8_t *out, int64_t room);

/* The text ends here. Call heddle_json_format once more with no text: it writes what is left. */
void heddle_json_format_end(struct heddle_json_format *format);

#endif
