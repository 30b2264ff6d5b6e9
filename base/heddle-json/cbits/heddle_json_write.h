/*
 * Writes the contents of JSON strings as UTF-8 with escapes.
 *
 * Escapes are written for the quote, the backslash and characters below U+0020: the short form for line feed, carriage
 * return and tab, otherwise \u00xx. Invalid input (half of a surrogate pair, each maximal part of an ill-formed
 * sequence) becomes U+FFFD. `level` is one of enum heddle_cpu_level; every level writes the same.
 */
#ifndef HEDDLE_JSON_WRITE_H
#define HEDDLE_JSON_WRITE_H

#include <stdint.h>

/*
 * Writes the first `most` of the `length` units (16 bits each) that begin `offset` units into the array, or as many of
 * them as fit into `room` bytes. A surrogate pair is not divided, so `most` may be exceeded by one. Returns how many
 * units were taken, and, shifted left by 32, how many bytes written. Bytes after those, within `room`, may change. At
 * most 2^24 units at a time.
 */
int64_t heddle_json_write_utf16(const uint16_t *array, int64_t offset, int64_t length, int64_t most, uint8_t *out,
                          int64_t room, int32_t level);

/* The same for UTF-8 bytes, which may be ill-formed; `most` may be exceeded by three. */
int64_t heddle_json_write_utf8(const uint8_t *text, int64_t length, int64_t most, uint8_t *out, int64_t room,
                         int32_t level);

/* The same, from an offset of an array. */
int64_t heddle_json_write_utf8_array(const uint8_t *array, int64_t offset, int64_t length, int64_t most, uint8_t *out,
                          int64_t room, int32_t level);

#endif
