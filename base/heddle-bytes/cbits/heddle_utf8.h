/*
 * UTF-8: validity, lengths, and the ways to and from UTF-16.
 *
 * `level` is one of heddle_cpu.h; every level gives the same answers. Nothing is read or written outside of the
 * ranges that are given. Nothing sleeps and nothing is kept; callers that hold a capability give 32 KiB at most.
 */
#ifndef HEDDLE_UTF8_H
#define HEDDLE_UTF8_H

#include <stdint.h>

/*
 * How many bytes of the text, from its first on, are whole characters of well-formed UTF-8 (RFC 3629). What is
 * there, if that is not the end, is ill-formed, or the beginning of a character that the end cuts off.
 */
int64_t heddle_utf8_valid(int level, const uint8_t *p, int64_t length);

/* Characters of valid text: bytes that do not continue one. */
int64_t heddle_utf8_characters(int level, const uint8_t *p, int64_t length);

/* 16-bit units of valid text in UTF-16. */
int64_t heddle_utf8_units(int level, const uint8_t *p, int64_t length);

/*
 * Valid text, of whole characters, as UTF-16 into array[at..end); answers where it ended. Room for
 * heddle_utf8_units() is enough; with less, what is written is a beginning of it.
 */
int64_t heddle_utf8_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end);

/* Bytes of array[from..to), which is valid UTF-16 of whole characters, in UTF-8. */
int64_t heddle_utf16_bytes(int level, const uint16_t *array, int64_t from, int64_t to);

/*
 * The units of array[from..to) as bytes, up to the first that is not ASCII; answers how many. There must be room
 * for to - from bytes; behind those that are answered, nothing is written.
 */
int64_t heddle_utf16_ascii(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p);

/*
 * Valid UTF-16 of whole characters, array[from..to), as UTF-8 into p[0..room); answers how many bytes. Room for
 * heddle_utf16_bytes() is enough.
 */
int64_t heddle_utf16_to_utf8(int level, const uint16_t *array, int64_t from, int64_t to, uint8_t *p, int64_t room);

/*
 * The same for text that may be ill-formed, with U+FFFD for each maximal subpart: the longest beginning of a
 * character, or a byte that begins none. They end before the beginning of a character that the end cuts off. The
 * answer has two parts: its low 32 bits are the bytes that were read, the others what they make. At most 2^30 bytes.
 * There must be room for what the counting functions answer; no more than the room is written in any case.
 */
int64_t heddle_utf8_replaced_units(int level, const uint8_t *p, int64_t length);
int64_t heddle_utf8_replace_to_utf16(int level, const uint8_t *p, int64_t length, uint16_t *array, int64_t at,
                                     int64_t end);
int64_t heddle_utf8_replaced_bytes(int level, const uint8_t *p, int64_t length);
int64_t heddle_utf8_replace_to_utf8(int level, const uint8_t *p, int64_t length, uint8_t *out, int64_t room);

#endif
