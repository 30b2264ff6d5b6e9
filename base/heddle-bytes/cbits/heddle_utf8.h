/*
 * UTF-8: validity, lengths, and the ways to and from UTF-16.
 *
 * `level` is one of heddle_cpu.h; every level gives the same answers. Nothing outside of the given ranges is read or
 * written. No function sleeps or keeps state; callers that hold a capability pass at most 32 KiB.
 */
#ifndef HEDDLE_UTF8_H
#define HEDDLE_UTF8_H

#include <stdint.h>

/*
 * The length of the longest prefix of whole characters of well-formed UTF-8 (RFC 3629). If it is not the whole text, an
 * ill-formed sequence follows, or the beginning of a character that the end cuts off.
 */
int64_t heddle_utf8_valid(int level, const uint8_t *p, int64_t length);

/* The number of characters of valid text: bytes that do not continue one. */
int64_t heddle_utf8_characters(int level, const uint8_t *p, int64_t length);

/* The number of UTF-16 units of valid text. */
int64_t heddle_utf8_units(int level, const uint8_t *p, int64_t length);

/*
 * Writes valid text, whole characters, as UTF-16 into array[at..end); returns where it ended. Room for
 * heddle_utf8_units() is enough; with less, a prefix is written.
 */
int64_t heddle_utf8_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end);

/* The number of UTF-8 bytes of array[from..to), which is valid UTF-16 of whole characters. */
int64_t heddle_utf16_bytes(int level, const uint16_t *array, int64_t from, int64_t to);

/*
 * Writes the units of array[from..to) as bytes, up to the first that is not ASCII; returns how many. There must be room
 * for to - from bytes; nothing is written after the returned number of bytes.
 */
int64_t heddle_utf16_ascii(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p);

/*
 * Writes array[from..to), valid UTF-16 of whole characters, as UTF-8 into p[0..room); returns how many bytes. Room for
 * heddle_utf16_bytes() is enough.
 */
int64_t heddle_utf16_to_utf8(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p, int64_t room);

/*
 * The same for text that may be ill-formed, with U+FFFD for each maximal subpart: the longest prefix of a character,
 * or a byte that begins none. They end before a character that the end cuts off. The low 32 bits of the answer are
 * the number of bytes read, the others that of the resulting units or bytes. At most 2^30 bytes. There should be room
 * for the result of the counting functions; nothing is written beyond the room.
 */
int64_t heddle_utf8_replaced_units(int level, const uint8_t *p, int64_t length);
int64_t heddle_utf8_replace_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at,
                                     int64_t end);
int64_t heddle_utf8_replaced_bytes(int level, const uint8_t *p, int64_t length);
int64_t heddle_utf8_replace_to_utf8(int level, const uint8_t *p, int64_t length, uint8_t *out, int64_t room);
/* The same, between two offsets of the array. */
int64_t heddle_utf8_replace_to_array(int level, const uint8_t *p, int64_t length, uint8_t *array, int64_t at,
                                     int64_t end);

#endif
