/* What heddle find does in C with names, times and patterns that it is given. */
#define _GNU_SOURCE
#include "harness.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heddle_walk.h"

void heddle_find_init(void);
size_t heddle_find_terminal(char *s, size_t len);
size_t heddle_find_time(char *out, size_t cap, int64_t seconds, int64_t nanos, int plain, char kind);
size_t heddle_find_list_time(char *out, size_t cap, int64_t seconds, int64_t now);
int heddle_find_local(int64_t seconds, int64_t *fields);
int heddle_find_mktime(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second, int *summer, int64_t *out);
int heddle_find_number(const char *s, double *out);
int64_t heddle_find_escape(const uint8_t *s, int64_t len, uint8_t *out);
const char *heddle_regex_dialect(int i);
void *heddle_regex_new(int dialect, int fold, const char *pattern, size_t len, const char **error);
void heddle_regex_free(void *re);
int heddle_regex_match(void *re, const char *text, size_t len);
int64_t heddle_regex_search(void *re, const char *text, size_t len, size_t from, int64_t *end);

static struct text text;

static void in_some_locale(void)
{
    setenv("LC_ALL", chance(2) ? "C" : "C.UTF-8", 1);
    heddle_find_init();
}

static int64_t some_time(void)
{
    return chance(3) ? (int64_t)any() : chance(2) ? below(4102444800) : (int64_t)any() >> below(40);
}

static void names(void)
{
    const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
    uint8_t *out = room(OUTPUT, 4 * text.length + 6, 1);
    int64_t n = heddle_walk_quote(p, text.length, out);
    CHECK(n >= 2 && n <= 4 * text.length + 6);
    intact(OUTPUT);
    out = room(OUTPUT, 4 * text.length + 1, 1);
    n = heddle_find_escape(p, text.length, out);
    CHECK(n >= text.length && n <= 4 * text.length);
    for (int64_t i = 0; i < n; i++) CHECK(out[i] >= 0x20 && out[i] < 0x7f);
    intact(OUTPUT);
    char *name = (char *)holding(OUTPUT, text.bytes, text.length, 1);
    CHECK(heddle_find_terminal(name, (size_t)text.length) <= (size_t)text.length);
    intact(OUTPUT);
}

static void times(void)
{
    static const char kinds[] = "@AaBbCcDdFGgHhIjklMmnpRrSsTtUuVWwXxYyZz+%";
    int64_t capacity = 64 + below(512), seconds = some_time(), nanos = below(1000000000);
    char *out = (char *)room(OUTPUT, capacity, 1);
    CHECK(heddle_find_time(out, (size_t)capacity, seconds, nanos, chance(4), kinds[below((int64_t)sizeof kinds - 1)]) <= (size_t)capacity);
    intact(OUTPUT);
    CHECK(heddle_find_list_time(out, (size_t)capacity, seconds, below(4102444800)) <= (size_t)capacity);
    intact(OUTPUT);
    int64_t *fields = (int64_t *)room(STATE, 64, 8), again;
    if (heddle_find_local(seconds, fields)) {
        int summer = -1;
        intact(STATE);
        if (heddle_find_mktime(fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], &summer, &again)) CHECK(again == seconds);
    }
    int summer = (int)below(3) - 1;
    heddle_find_mktime((int64_t)any() >> below(64), below(40) - 20, (int64_t)any() >> below(64), (int64_t)any() >> below(64), below(100), below(100), &summer, &again);
    double number;
    char digits[40];
    int64_t n = below(39);
    for (int64_t i = 0; i < n; i++) digits[i] = "0123456789.eE+-xXpPnNaAiIfF"[below(27)];
    digits[n] = 0;
    const char *s = (const char *)holding(INPUT, digits, n + 1, 1);
    heddle_find_number(s, &number);
}

/* A path and an output buffer. */
static void paths(void)
{
    struct heddle_cursor *c = heddle_walk_cursor();
    CHECK(c);
    int64_t prefix = below(text.length + 1), tail = text.length - prefix;
    CHECK(heddle_walk_reserve_path(c, prefix + 1) == 0);
    memcpy(c->path, text.bytes, (size_t)prefix);
    c->prefix = prefix;
    c->tail = holding(INPUT, text.bytes + prefix, tail, 1);
    c->tail_length = tail;
    if (!c->tail) c->tail = (const uint8_t *)"";
    c->name = c->tail;
    c->out_capacity = below(2 * text.length + 3);
    c->out = room(OUTPUT, c->out_capacity, 1);
    int64_t missing = heddle_walk_put_path(c, chance(2) ? 0 : -1);
    CHECK(missing == 0 ? c->out_used >= text.length && memcmp(c->out, text.bytes, (size_t)text.length) == 0 : c->out_used == 0);
    int64_t used = c->out_used;
    missing = heddle_walk_put(c, text.bytes, text.length);
    CHECK(missing == 0 ? c->out_used == used + text.length : c->out_used == used);
    intact(OUTPUT);
    CHECK(heddle_walk_path(c) == text.length && memcmp(c->path, text.bytes, (size_t)text.length) == 0 && c->path[text.length] == 0);
    heddle_walk_free(c);
}

void check_walk(void)
{
    any_text(&text);
    in_some_locale();
    names();
    times();
    paths();
}

/* The C library's matcher takes exponential time for some patterns and has no bound for references back, so patterns are
   short and have none of these. */
void check_regex(void)
{
    static const char some[] = "ab.*+?[]^$|(){}-\\1\n\xc3\xa9";
    char pattern[12];
    int64_t n = below(10), dialects = 0;
    while (heddle_regex_dialect((int)dialects)) dialects++;
    CHECK(dialects > 0 && heddle_regex_dialect(-1) == NULL);
    in_some_locale();
    for (int64_t i = 0; i < n; i++) {
        pattern[i] = some[below((int64_t)sizeof some - 1)];
        if (i && pattern[i - 1] == '\\' && pattern[i] == '1') pattern[i] = 'w';
        /* Repetitions of repetitions, and counts, are what takes long. */
        if (i && strchr("*+?{", pattern[i - 1]) && strchr("*+?{", pattern[i])) pattern[i] = 'a';
    }
    text.length = below(40);
    for (int64_t i = 0; i < text.length; i++) text.bytes[i] = chance(10) ? (uint8_t)any() : (uint8_t)"ab\n"[below(3)];
    const char *error = NULL, *p = (const char *)holding(INPUT_2, pattern, n, 1);
    if (!p) return;
    void *re = heddle_regex_new((int)below(dialects), chance(2), p, (size_t)n, &error);
    CHECK((re == NULL) == (error != NULL));
    if (!re) return;
    const char *s = (const char *)holding(INPUT, text.bytes, text.length, 1);
    if (!s) s = "";
    int64_t from = below(text.length + 1), end = -1;
    int64_t found = heddle_regex_search(re, s, (size_t)text.length, (size_t)from, NULL);
    CHECK(found < 0 || (found >= from && found <= text.length));
    CHECK(heddle_regex_search(re, s, (size_t)text.length, (size_t)from, &end) == found);
    if (found >= 0) CHECK(end >= found && end <= text.length);
    heddle_regex_match(re, s, (size_t)text.length);
    heddle_regex_free(re);
}
