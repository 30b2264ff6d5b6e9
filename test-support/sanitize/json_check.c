/* The automata of heddle_json_check.h and heddle_json_format.h, in pieces cut anywhere: every level against the first
   one over the whole text; and laws of the layout. */
#include "harness.h"

#include <string.h>

#include "heddle_cpu.h"
#include "heddle_json_check.h"
#include "heddle_json_format.h"

static struct text text;

enum { EVENTS = 4 * MOST_TEXT };
struct run {
    int64_t count;
    int64_t event[EVENTS];  /* Offsets, times 8, plus the answer. */
    int64_t offset;
    int answer, reason;
};

/* With room for 64 levels at first, which grows as the automaton asks for it. */
static void run(struct run *run, int level, const struct heddle_json_check *begin, const uint8_t *p, int64_t length, int whole)
{
    int64_t capacity = 64, size = (int64_t)sizeof(struct heddle_json_check) + capacity / 8;
    struct heddle_json_check *check = (void *)room(STATE, size, 8);
    memset(check, 0, (size_t)size);
    memcpy(check, begin, sizeof *begin);
    check->capacity = (int32_t)capacity;
    run->count = 0;
    run->answer = HEDDLE_JSON_MORE;
    for (int64_t at = 0; at < length && run->answer != HEDDLE_JSON_WRONG;) {
        int64_t piece = whole ? length - at : below(chance(3) ? 5 : length - at + 1);
        if (piece > length - at) piece = length - at;
        int64_t before = check->offset;
        run->answer = heddle_json_check(level, check, p + at, piece);
        if (run->answer != HEDDLE_JSON_WRONG) {
            CHECK(check->offset >= before && check->offset <= before + piece);
            at += check->offset - before;
        }
        if (run->answer == HEDDLE_JSON_BEGINS || run->answer == HEDDLE_JSON_ENDS) {
            CHECK(run->count < EVENTS);
            run->event[run->count++] = 8 * check->offset + run->answer;
        }
        if (run->answer == HEDDLE_JSON_DEEPER) {
            static uint8_t old[MOST_TEXT];
            memcpy(old, check, (size_t)size);
            int64_t larger = size + capacity / 8;
            check = (void *)room(STATE, larger, 8);
            memset(check, 0, (size_t)larger);
            memcpy(check, old, (size_t)size);
            capacity *= 2;
            size = larger;
            check->capacity = (int32_t)capacity;
        }
        intact(STATE);
    }
    if (run->answer != HEDDLE_JSON_WRONG) {
        run->answer = heddle_json_check_end(check);
        if (run->answer == HEDDLE_JSON_ENDS) run->event[run->count++] = 8 * check->offset + run->answer;
    }
    run->offset = check->offset;
    run->reason = run->answer == HEDDLE_JSON_WRONG ? check->reason : 0;
}

/* Is it one value? If not, where it is wrong. */
int check_whole(int level, const uint8_t *p, int64_t length, int depth, int64_t longest, int64_t *offset)
{
    static struct run whole;
    uint8_t copy[MOST_TEXT];
    memcpy(copy, p, (size_t)length);
    struct heddle_json_check begin = {.number_limit = longest, .depth_limit = depth, .watched = -1};
    run(&whole, level, &begin, copy, length, 1);
    *offset = whole.offset;
    return whole.answer != HEDDLE_JSON_WRONG;
}

/* All of it, in pieces of the text and of the room. */
static int64_t lay_out(int level, int layout, int indent, const uint8_t *p, int64_t length, uint8_t *to, int64_t most, int whole)
{
    struct heddle_json_format *format = (void *)room(STATE, sizeof *format, 8);
    memset(format, 0, sizeof *format);
    format->layout = layout;
    format->indent = indent;
    int64_t total = 0;
    int ended = 0;
    for (int64_t at = 0;;) {
        int64_t piece = whole ? length - at : below(length - at + 1), space = whole ? most - total : below(chance(4) ? 200 : 4);
        if (at == length && !ended && (whole || chance(2))) heddle_json_format_end(format), ended = 1;
        if (space > most - total) space = most - total;
        uint8_t *out = room(OUTPUT, space, 1);
        int64_t took = heddle_json_format(level, format, p + at, piece, out, space), wrote = format->written;
        intact(OUTPUT);
        intact(STATE);
        CHECK(took >= 0 && took <= piece && wrote >= 0 && wrote <= space && (took == piece || wrote == space));
        memcpy(to + total, out, (size_t)wrote);
        total += wrote;
        at += took;
        if (at == length && ended && wrote < space) return total;
        CHECK(total < most);
    }
}

static void layouts(int64_t length)
{
    enum { LAID_OUT = 200000 };
    static uint8_t first[LAID_OUT], other[LAID_OUT], again[LAID_OUT];
    int64_t offset, brackets = 0;
    for (int64_t i = 0; i < length; i++) brackets += text.bytes[i] == '[' || text.bytes[i] == '{' || text.bytes[i] == ',';
    for (int layout = 0; layout < 3; layout++) {
        int indent = layout == HEDDLE_JSON_INDENTED ? (int)below(5) : 0;
        /* Deep nesting is quadratic when it is indented. */
        if (layout == HEDDLE_JSON_INDENTED && length + brackets * 2 * 310 * (indent + 1) > LAID_OUT - 1000) continue;
        int64_t size = -1;
        for (int level = 0; level <= heddle_cpu_best(); level++) {
            const uint8_t *p = holding(INPUT, text.bytes, length, 1);
            int64_t n = lay_out(level, layout, indent, p, length, level == 0 ? first : other, LAID_OUT, level == 0);
            if (level == 0) size = n;
            CHECK(n == size && (level == 0 || memcmp(first, other, (size_t)n) == 0));
        }
        if (layout == HEDDLE_JSON_MINIFIED) {
            CHECK(size <= length);
            CHECK(lay_out(0, layout, 0, first, size, again, LAID_OUT, 1) == size && memcmp(first, again, (size_t)size) == 0);
        }
        CHECK(size > MOST_TEXT || check_whole(0, first, size, 1000, 1 << 20, &offset));
    }
}

void check_json_check(void)
{
    static struct run first, other;
    if (chance(4)) any_text(&text);
    else {
        random_json(&text);
        if (chance(2)) mutate(&text);
    }
    struct heddle_json_check begin = {
        .number_limit = chance(4) ? below(6) : 1 << 20, .depth_limit = (int32_t)(chance(4) ? below(6) : 1000),
        .many = chance(2), .watched = (int32_t)below(3) - 1};
    begin.state = begin.many;
    /* As newAutomaton combines them. */
    if (!begin.many && begin.watched == 0) begin.watched = -1;
    if (begin.many && begin.watched == 1) begin.watched = 0;
    const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
    run(&first, 0, &begin, p, text.length, 1);
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        p = holding(INPUT, text.bytes, text.length, 1);
        run(&other, level, &begin, p, text.length, 0);
        CHECK(other.answer == first.answer && other.offset == first.offset && other.reason == first.reason && other.count == first.count);
        CHECK(memcmp(other.event, first.event, (size_t)first.count * 8) == 0);
        int64_t place[2] = {3, 5}, lines = 3, characters = 5;
        for (int64_t i = 0; i < text.length; i++) {
            if (text.bytes[i] == '\n') lines++, characters = 0;
            else characters += (text.bytes[i] & 0xc0) != 0x80;
        }
        heddle_json_place(level, place, p, text.length);
        CHECK(place[0] == lines && place[1] == characters);
    }
    int64_t offset;
    if (check_whole(0, text.bytes, text.length, 1000, 1 << 20, &offset)) layouts(text.length);
}
