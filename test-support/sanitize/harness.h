/*
 * Shared by the checks of all kernels: memory between inaccessible pages, random input, and failing.
 *
 * Every round draws its input from its own seed, so that one number replays it.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <stddef.h>
#include <stdint.h>

/* Random numbers of this round. */
uint64_t any(void);
int64_t below(int64_t n);   /* 0 .. n - 1 */
int chance(int one_in);

/* Places for bytes, each between two pages without access. */
enum place { INPUT, INPUT_2, OUTPUT, OUTPUT_2, STATE, PLACES };
enum { MOST = 1 << 19 };

/*
 * This many bytes at the end or at the beginning of a place, at random; `aligned` is the alignment that the
 * kernel may count on. The other side has 64 bytes that must not change; check them with intact().
 */
uint8_t *room(enum place place, int64_t size, int64_t aligned);
/* The same with these bytes in it. Where there are none, a null pointer now and then. */
uint8_t *holding(enum place place, const void *bytes, int64_t size, int64_t aligned);
void intact(enum place place);

/* Input: at most MOST_TEXT bytes, mostly few. */
enum { MOST_TEXT = 80000 };
struct text {
    uint8_t bytes[MOST_TEXT];
    int64_t length;
};
int64_t some_length(void);
void random_bytes(struct text *text);
void random_utf8(struct text *text);
void random_json(struct text *text);
void random_lines(struct text *text);
/* A few bytes flipped, inserted, removed, repeated; or cut off. */
void mutate(struct text *text);
/* Any of these. */
void any_text(struct text *text);

/* Ends the program with the number that replays the round. */
#define CHECK(condition) ((condition) ? (void)0 : failed(__FILE__, __LINE__, #condition))
_Noreturn void failed(const char *file, int line, const char *condition);

/* What each file checks: one round. */
void check_utf8(void);
void check_json_read(void);
void check_json_check(void);
void check_json_write(void);
void check_hash(void);
void check_memory(void);
void check_search(void);
void check_walk(void);
void check_regex(void);
void check_mask(void);
void check_deflate(void);
void check_h2(void);

#endif
