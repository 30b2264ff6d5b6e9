/*
 * JSON strings: what stands between the quotes, as UTF-8 with escapes.
 *
 * Escaped are the quote, the backslash and what is below U+0020, in the short form for the line feed, the
 * carriage return and the tab, else as \u00xx. What is not valid (half of a surrogate pair, each maximal
 * part of an ill-formed sequence) becomes U+FFFD. `level` is one of enum heddle_cpu_level; every level
 * writes the same.
 */
#ifndef HEDDLE_JSON_WRITE_H
#define HEDDLE_JSON_WRITE_H

#include <stdint.h>

/*
 * Writes the first `most` of the `length` units (16 bits each) that begin `offset` units into the array,
 * or as many of them as take at most `room` bytes; of a surrogate pair both or none, where `most` may be
 * exceeded by one. Answers how many units were taken, and, shifted left by 32, how many bytes written.
 * Bytes behind those, within `room`, may change. At most 2^24 units at a time.
 */
int64_t heddle_json_write_utf16(const uint16_t *array, int64_t offset, int64_t length, int64_t most, uint8_t *out,
                          int64_t room, int32_t level);

/* The same for bytes that should be UTF-8; `most` may be exceeded by three. */
int64_t heddle_json_write_utf8(const uint8_t *text, int64_t length, int64_t most, uint8_t *out, int64_t room,
                         int32_t level);

#endif
