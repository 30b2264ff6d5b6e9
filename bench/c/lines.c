/*
 * The floor of `heddle pipe` for lines with a text: the same kernels, and nothing around them.
 *
 *   lines count TEXT FILE      how many lines have the text
 *   lines number TEXT FILE     these lines, each behind its number and a colon
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "heddle_search.h"
#include "common.h"

enum { BLOCK = 128 << 10, LINES = 64 };

static struct heddle_needle *needle;
static int level, numbered;
static int64_t before, counted;

/* Whole lines, or the last one of all. */
static void search(const uint8_t *block, int64_t length)
{
    if (!numbered) {
        counted += heddle_needle_count_lines(needle, block, length);
        return;
    }
    struct heddle_line lines[LINES];
    int64_t from = 0, found;
    do {
        found = heddle_needle_lines(needle, block, length, from, 1, lines, LINES);
        for (int64_t i = 0; i < found; i++) {
            before += lines[i].skipped + 1;
            printf("%ld:%.*s\n", (long)before, (int)(lines[i].end - lines[i].start), block + lines[i].start);
            from = lines[i].end + 1;
        }
    } while (found == LINES);
    if (from < length)
        before += heddle_search_count(level, block + from, length - from, '\n');
}

int main(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "count") != 0 && strcmp(argv[1], "number") != 0)) {
        fprintf(stderr, "usage: lines count|number TEXT FILE\n");
        return 2;
    }
    numbered = strcmp(argv[1], "number") == 0;
    level = heddle_search_best();
    needle = malloc(heddle_needle_size(strlen(argv[2])));
    int64_t size = BLOCK, held = 0;
    uint8_t *block = malloc(size);
    int file = open(argv[3], O_RDONLY | O_CLOEXEC);
    if (file < 0)
        die(argv[3]);
    if (!needle || !block)
        die("malloc");
    heddle_needle_make(needle, level, 0, (const uint8_t *)argv[2], strlen(argv[2]), 0);
    for (ssize_t got; (got = read(file, block + held, size - held)) != 0;) {
        if (got < 0)
            die(argv[3]);
        int64_t last = heddle_search_find_end(level, block + held, got, '\n');
        int64_t whole = last < 0 ? 0 : held + last + 1;
        held += got;
        search(block, whole);
        held -= whole;
        memmove(block, block + whole, held);
        if (held == size && !(block = realloc(block, size *= 2)))
            die("realloc");
    }
    if (held > 0)
        search(block, held);
    if (!numbered)
        printf("%ld\n", (long)counted);
    return 0;
}
