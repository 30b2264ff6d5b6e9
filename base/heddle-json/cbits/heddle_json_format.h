/*
 * Reformats JSON: without white space, one value per line, or indented. The text comes in pieces of any size, and must
 * have been found valid so far (heddle_json_check.h). The output may be given in pieces of any size, too.
 */
#ifndef HEDDLE_JSON_FORMAT_H
#define HEDDLE_JSON_FORMAT_H

#include <stdint.h>

enum heddle_json_layout {
    HEDDLE_JSON_MINIFIED = 0,   /* Without white space; never longer than the text. */
    HEDDLE_JSON_LINES = 1,      /* The same, with a newline after each value. */
    HEDDLE_JSON_INDENTED = 2    /* A line for each element; a newline after each value. */
};

struct heddle_json_format {
    int64_t written;    /* Bytes written by the last call. */
    int64_t blanks;     /* To be written first, after the newline. */
    int64_t depth;
    int32_t newline;    /* Is a newline to be written first? */
    int32_t layout;
    int32_t indent;     /* Blanks for each level. */
    int32_t state;
    int32_t opened;     /* Has an array or object just begun? */
    int32_t closing;    /* Has the line of a closing bracket begun? */
};

/* level: heddle_cpu.h. Returns how many bytes of the text were taken; fewer than all only if the output is full. */
int64_t heddle_json_format(int level, struct heddle_json_format *format, const uint8_t *text, int64_t length,
                           uint8_t *out, int64_t room);

/* Ends the text. Call heddle_json_format once more with no text: it writes the rest. */
void heddle_json_format_end(struct heddle_json_format *format);

#endif
