/* The kernels of heddle_json_read.h: every level against the first one, which has no vectors, and skipping against the
   checking automaton. */
#include "harness.h"

#include <string.h>

#include "heddle_cpu.h"

/* Two headers that name their enumerators alike: this file knows the automaton only through check_whole(). */
#include "heddle_json_read.h"

int check_whole(int level, const uint8_t *p, int64_t length, int depth, int64_t longest, int64_t *offset);

static struct text text;

static void strings(void)
{
    int64_t first = 0, first_check = 0, first16 = 0, count16 = 0, first8 = 0, count8 = 0, units = 0;
    static uint16_t wanted16[MOST_TEXT];
    static uint8_t wanted8[MOST_TEXT];
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *p = holding(INPUT, text.bytes, text.length, 1), *end = p + text.length;
        int64_t answer = heddle_json_read_string(level, p, end);
        if (level == 0) first = answer;
        CHECK(answer == first && (answer >> 8) <= text.length);
        int64_t most = heddle_json_read_units(level, p, end), counts[1] = {-1};
        if (level == 0) units = most;
        CHECK(most == units);

        answer = heddle_json_read_check(level, p, end);
        if (level == 0) first_check = answer;
        CHECK(answer == first_check);

        int64_t at = below(3);
        uint16_t *out16 = (uint16_t *)room(OUTPUT, 2 * (at + most), 2);
        answer = heddle_json_read_utf16(level, p, end, out16, at, counts);
        CHECK(counts[0] >= at && counts[0] <= at + most);
        if (level == 0) first16 = answer, count16 = counts[0] - at, memcpy(wanted16, out16 + at, (size_t)(2 * count16));
        CHECK(answer == first16 && answer == first_check && counts[0] - at == count16 &&
              memcmp(out16 + at, wanted16, (size_t)(2 * count16)) == 0);
        intact(OUTPUT);

        uint8_t *out8 = room(OUTPUT, at + text.length, 1);
        answer = heddle_json_read_utf8(level, p, end, out8, at, counts);
        CHECK(counts[0] >= at && counts[0] <= at + text.length);
        if (level == 0) first8 = answer, count8 = counts[0] - at, memcpy(wanted8, out8 + at, (size_t)count8);
        CHECK(answer == first8 && answer == first_check && counts[0] - at == count8 &&
              memcmp(out8 + at, wanted8, (size_t)count8) == 0);
        intact(OUTPUT);

        int64_t ascii = 0;
        while (ascii < text.length && text.bytes[ascii] < 0x80 && text.bytes[ascii] != '\\') ascii++;
        out16 = (uint16_t *)room(OUTPUT, 2 * ascii, 2);
        heddle_json_read_widen(level, p, ascii, out16);
        for (int64_t i = 0; i < ascii; i++) CHECK(out16[i] == text.bytes[i]);
        intact(OUTPUT);

        int64_t commas = 0, i = 0;
        for (; i < text.length && text.bytes[i] != ']'; i++) commas += text.bytes[i] == ',';
        CHECK(heddle_json_read_commas(level, p, end) == 2 * commas + (i < text.length));
    }
}

static void numbers(void)
{
    static struct text digits;
    static const char some[] = "0123456789-+.eE ,";
    digits.length = below(chance(4) ? 60 : 12);
    int few = chance(2) ? 10 : 16;
    for (int64_t i = 0; i < digits.length; i++) digits.bytes[i] = (uint8_t)some[below(few)];
    if (chance(2)) mutate(&digits);
    const uint8_t *p = holding(INPUT, digits.bytes, digits.length, 1);
    uint64_t *out = (uint64_t *)room(STATE, 16, 8);
    int64_t answer = heddle_json_read_number(p, p + digits.length, out);
    intact(STATE);
    uint64_t mantissa = out[0];
    CHECK((answer >> 8) <= digits.length);
    if ((answer & 31) == HEDDLE_JSON_READ_DONE) {
        /* What was read is a number by itself, and ends there. */
        int64_t offset, n = answer >> 8;
        CHECK(n > 0 && check_whole(0, p, n, 1, 1 << 20, &offset));
        /* Up to 19 digits: the value without rounding. */
        uint64_t value = 0;
        int64_t i = 0;
        for (; i < n && digits.bytes[i] != 'e' && digits.bytes[i] != 'E'; i++)
            if (digits.bytes[i] >= '0' && digits.bytes[i] <= '9') value = value * 10 + (uint64_t)(digits.bytes[i] - '0');
        if (!(answer & HEDDLE_JSON_READ_INEXACT)) CHECK(mantissa == value);
    }
}

/* A value that is skipped whole is one by the automaton, too, and the other way round. */
static void skipping(void)
{
    if (text.length == 0 || (text.bytes[0] != '[' && text.bytes[0] != '{')) return;
    int64_t depth = chance(4) ? below(6) : 1 + below(400), longest = chance(4) ? below(8) : 4096, first_status = -1, first_at = 0;
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *p = holding(INPUT, text.bytes, text.length, 1), *end = p + text.length;
        int64_t levels = depth < text.length ? depth : text.length;
        int64_t size = 8 * (10 + levels / 64), *words = (int64_t *)room(STATE, size, 8);
        int object = p[0] == '{';
        if (depth == 0) return;
        words[3] = object, words[4] = 1, words[5] = depth, words[6] = longest, words[8] = object ? 2 : 0;
        int64_t at = 1, status;
        for (;;) {
            int64_t answer = heddle_json_read_skip(level, p + at, end, words);
            intact(STATE);
            status = answer & 255;
            at += answer >> 8;
            CHECK(at <= text.length);
            if (status == HEDDLE_JSON_READ_MORE) continue;
            if (status != HEDDLE_JSON_READ_OPEN) break;
            /* A string that is longer than a slice: its caller looks for its end. */
            int64_t close = heddle_json_read_string(level, p + at + 1, end), length = close >> 8;
            if ((close & 31) != HEDDLE_JSON_READ_DONE || (heddle_json_read_check(level, p + at + 1, p + at + 1 + length) & 31)) {
                status = -2;
                break;
            }
            at += 2 + length;
        }
        if (level == 0) {
            first_status = status, first_at = at;
            int64_t offset = 0;
            int right = check_whole(heddle_cpu_best(), p, status == HEDDLE_JSON_READ_DONE ? at : text.length, (int)depth, longest, &offset);
            CHECK(right == (status == HEDDLE_JSON_READ_DONE) || (status != HEDDLE_JSON_READ_DONE && right == 0));
            /* Both name the same byte, but for text that ends too early. */
            if (!right && status > 0 && status != HEDDLE_JSON_READ_TRUNCATED && status != HEDDLE_JSON_READ_LONG_NUMBER && offset < text.length) CHECK(offset == at);
        }
        CHECK(status == first_status && at == first_at);
    }
}

void check_json_read(void)
{
    if (chance(3)) any_text(&text);
    else {
        random_json(&text);
        if (chance(2)) mutate(&text);
    }
    int64_t blanks = 0;
    while (blanks < text.length && strchr(" \n\r\t", text.bytes[blanks]) && text.bytes[blanks]) blanks++;
    memmove(text.bytes, text.bytes + blanks, (size_t)(text.length - blanks));
    text.length -= blanks;
    strings();
    numbers();
    skipping();
}
