/*
 * Byte kernels over blocks of a stream: bytes, lines, literals.
 *
 * Nothing here calls the system, allocates, keeps state between calls, or reads a byte outside the ranges
 * it is given. Every search is linear in its input: at worst a few nanoseconds per byte, so a call on
 * 256 KiB takes less than a millisecond whatever the bytes are, and some microseconds on text.
 *
 * A level selects the instructions: 0 plain C, 1 SSE2, 2 AVX2. All levels give the same answers; a level
 * above heddle_search_best() must not be used.
 *
 * Positions and lengths are in bytes, and -1 is "nowhere". A line ends before its '\n' or at the end of
 * the block.
 */
#ifndef HEDDLE_SEARCH_H
#define HEDDLE_SEARCH_H

#include <stdint.h>

/* The highest level of this machine. */
int heddle_search_best(void);

/* The offset of a byte's first and last occurrence. */
int64_t heddle_search_find(int level, const uint8_t *p, int64_t length, uint8_t byte);
int64_t heddle_search_find_end(int level, const uint8_t *p, int64_t length, uint8_t byte);

/* The number of a byte's occurrences, and the offset of its n-th occurrence, counted from 1. */
int64_t heddle_search_count(int level, const uint8_t *p, int64_t length, uint8_t byte);
int64_t heddle_search_nth(int level, const uint8_t *p, int64_t length, uint8_t byte, int64_t n);

/* Writes the offsets of a byte's occurrences at or after `from`, at most `capacity`; returns their number. */
int64_t heddle_search_places(int level, const uint8_t *p, int64_t length, int64_t from, uint8_t byte,
                            int64_t *out, int64_t capacity);

/*
 * A literal prepared for searching, or several, any of which is searched for. Each of several stores the
 * distance to the next one (0: the last). At most HEDDLE_NEEDLES, all of one level. A needle holds no
 * pointer, so its bytes may be moved; they are aligned to 8. fold: literal and text are compared without
 * regard to the case of ASCII letters.
 */
enum { HEDDLE_NEEDLES = 32 };
struct heddle_needle;
int64_t heddle_needle_size(int64_t length);
void heddle_needle_make(struct heddle_needle *needle, int level, int fold, const uint8_t *bytes, int64_t length,
                        int64_t next);

/* The first occurrence that starts at or after `from`. */
int64_t heddle_needle_find(const struct heddle_needle *needle, const uint8_t *text, int64_t length, int64_t from);

/* The lines that contain the literal. One with a '\n' is in no line; the empty one is in each. */
int64_t heddle_needle_count_lines(const struct heddle_needle *needle, const uint8_t *block, int64_t length);

/* A line that was found, and the number of lines between it and the one found before it, or `from`. */
struct heddle_line {
    int64_t start, end, skipped;
};

/*
 * Finds the lines that contain the literal, from a line's start on, at most `capacity` of them; returns
 * their number. If that is `capacity`, continue from the last one's end + 1. With numbered = 0, skipped is 0.
 */
int64_t heddle_needle_lines(const struct heddle_needle *needle, const uint8_t *block, int64_t length, int64_t from,
                            int numbered, struct heddle_line *out, int64_t capacity);

/* For tests: the first literal, found as if the budget of comparisons were spent. */
int64_t heddle_needle_find_tired(const struct heddle_needle *needle, const uint8_t *text, int64_t length, int64_t from);

/* For tests: the steps that finding all occurrences of the first literal takes beyond the vectors' pass. */
int64_t heddle_needle_work(const struct heddle_needle *needle, const uint8_t *text, int64_t length);

#endif
