/* The kernels of heddle_search.h, against twins that look at one byte after the other. */
#include "harness.h"

#include <ctype.h>
#include <string.h>

#include "heddle_search.h"

static struct text text, needle[HEDDLE_NEEDLES];

static void bytes(int level)
{
    static int64_t wanted[MOST_TEXT];
    uint8_t byte = text.length && chance(4) ? text.bytes[below(text.length)] : (uint8_t)any();
    const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
    int64_t found = 0, from = below(text.length + 1), behind = 0;
    for (int64_t i = 0; i < text.length; i++)
        if (text.bytes[i] == byte) wanted[found++] = i;
    while (behind < found && wanted[behind] < from) behind++;
    CHECK(heddle_search_find(level, p, text.length, byte) == (found ? wanted[0] : -1));
    CHECK(heddle_search_find_end(level, p, text.length, byte) == (found ? wanted[found - 1] : -1));
    CHECK(heddle_search_count(level, p, text.length, byte) == found);
    int64_t n = 1 + below(found + 2);
    CHECK(heddle_search_nth(level, p, text.length, byte, n) == (n <= found ? wanted[n - 1] : -1));
    int64_t capacity = below(chance(2) ? 4 : found + 2);
    int64_t *out = (int64_t *)room(OUTPUT, 8 * capacity, 8);
    int64_t most = found - behind < capacity ? found - behind : capacity;
    CHECK(heddle_search_places(level, p, text.length, from, byte, out, capacity) == most);
    CHECK(most == 0 || memcmp(out, wanted + behind, (size_t)(8 * most)) == 0);
    intact(OUTPUT);
}

static int matches(int64_t which, int fold, int64_t at)
{
    if (needle[which].length > text.length - at) return 0;
    for (int64_t i = 0; i < needle[which].length; i++) {
        uint8_t a = text.bytes[at + i], b = needle[which].bytes[i];
        if (fold && a < 0x80) a = (uint8_t)tolower(a);
        if (fold && b < 0x80) b = (uint8_t)tolower(b);
        if (a != b) return 0;
    }
    return 1;
}

static void literals(int level, int64_t count, int fold)
{
    int64_t size = 0, from = below(text.length + 1), first = -1, only = -1;
    for (int64_t i = 0; i < count; i++) size += (heddle_needle_size(needle[i].length) + 7) & -8;
    uint8_t *memory = room(STATE, size, 8);
    for (int64_t i = 0, at = 0; i < count; i++) {
        int64_t one = (heddle_needle_size(needle[i].length) + 7) & -8;
        const uint8_t *p = holding(INPUT_2, needle[i].bytes, needle[i].length, 1);
        heddle_needle_make((void *)(memory + at), level, fold, p, needle[i].length, i + 1 < count ? one : 0);
        at += one;
    }
    intact(STATE);
    const struct heddle_needle *set = (void *)memory;
    const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
    for (int64_t at = from; at <= text.length && first < 0; at++)
        for (int64_t i = 0; i < count; i++)
            if (matches(i, fold, at)) first = at;
    for (int64_t at = from; at <= text.length && only < 0; at++)
        if (matches(0, fold, at)) only = at;
    CHECK(heddle_needle_find(set, p, text.length, from) == first);
    CHECK(heddle_needle_find_tired(set, p, text.length, from) == only);
    CHECK(heddle_needle_work(set, p, text.length) >= 0);

    /* Lines, from the beginning on. */
    int64_t lines = 0, capacity = below(chance(2) ? 3 : 50), skipped = 0;
    struct heddle_line *out = (void *)room(OUTPUT, 24 * capacity, 8);
    int numbered = chance(2);
    int64_t wrote = heddle_needle_lines(set, p, text.length, 0, numbered, out, capacity);
    for (int64_t start = 0; start < text.length;) {
        const uint8_t *newline = memchr(text.bytes + start, '\n', (size_t)(text.length - start));
        int64_t end = newline ? newline - text.bytes : text.length;
        int found = 0;
        for (int64_t i = 0; i < count && !found; i++)
            for (int64_t at = start; at + needle[i].length <= end && !found; at++) found = matches(i, fold, at);
        if (found) {
            if (lines < capacity) CHECK(lines < wrote && out[lines].start == start && out[lines].end == end && out[lines].skipped == (numbered ? skipped : 0));
            lines++;
            skipped = 0;
        } else skipped++;
        start = end + 1;
    }
    CHECK(wrote == (lines < capacity ? lines : capacity) && heddle_needle_count_lines(set, p, text.length) == lines);
    intact(OUTPUT);
}

void check_search(void)
{
    if (chance(3)) any_text(&text);
    else random_lines(&text);
    for (int level = 0; level <= heddle_search_best(); level++) bytes(level);
    /* The twins take the product of the lengths. */
    if (text.length > 3000) text.length = below(3000);
    int64_t count = chance(2) ? 1 : chance(8) ? HEDDLE_NEEDLES : 1 + below(4);
    int fold = chance(2);
    for (int64_t i = 0; i < count; i++) {
        needle[i].length = below(chance(8) ? 80 : 8);
        for (int64_t k = 0; k < needle[i].length; k++) needle[i].bytes[k] = (uint8_t)((fold && chance(3) ? 'A' : 'a') + below(3));
        if (text.length > needle[i].length && chance(2)) memcpy(needle[i].bytes, text.bytes + below(text.length - needle[i].length), (size_t)needle[i].length);
        if (needle[i].length && chance(12)) needle[i].bytes[below(needle[i].length)] = (uint8_t)any();
    }
    for (int level = 0; level <= heddle_search_best(); level++) literals(level, count, fold);
}
