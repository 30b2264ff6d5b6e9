/* The kernels of heddle_utf8.h, against twins that take a character at a time. */
#include "harness.h"

#include <string.h>

#include "heddle_cpu.h"
#include "heddle_utf8.h"

/* What is there: a character's length, with its number; 0 if the end cuts it off; less the length of a maximal subpart. */
static int character(const uint8_t *p, int64_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int width = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    if (width == 0) return -1;
    uint32_t sum = width == 1 ? p[0] : p[0] & (0x7fu >> width);
    for (int i = 1; i < width; i++) {
        if (i == left) return 0;
        if ((p[i] & 0xc0) != 0x80) return -i;
        sum = sum << 6 | (p[i] & 63);
        /* The second byte tells whether the number can be right. */
        if (i == 1) {
            uint32_t low = sum << 6 * (width - 2), high = low | ((1u << 6 * (width - 2)) - 1);
            if (high < least[width] || low > 0x10ffff || (low >= 0xd800 && high < 0xe000)) return -1;
        }
    }
    *code = sum;
    return width;
}

static struct text text;
static uint16_t wanted[MOST_TEXT];
static uint8_t wanted_bytes[3 * MOST_TEXT];

static int64_t put16(uint16_t *out, int64_t at, uint32_t code)
{
    if (code < 0x10000) return out[at] = (uint16_t)code, at + 1;
    out[at] = (uint16_t)(0xd7c0 + (code >> 10));
    return out[at + 1] = (uint16_t)(0xdc00 | (code & 0x3ff)), at + 2;
}

void check_utf8(void)
{
    if (chance(3)) any_text(&text);
    else {
        random_utf8(&text);
        if (chance(2)) mutate(&text);
    }
    int64_t valid = 0, characters = 0, units = 0;
    for (uint32_t code; valid < text.length; characters++) {
        int n = character(text.bytes + valid, text.length - valid, &code);
        if (n <= 0) break;
        units = put16(wanted, units, code);
        valid += n;
    }
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
        CHECK(heddle_utf8_valid(level, p, text.length) == valid);
        p = holding(INPUT, text.bytes, valid, 1);
        CHECK(heddle_utf8_characters(level, p, valid) == characters);
        CHECK(heddle_utf8_units(level, p, valid) == units);
        uint16_t *array = (uint16_t *)room(OUTPUT, 2 * units, 2);
        CHECK(heddle_utf8_to_utf16(level, p, valid, array, 0, units) == units);
        CHECK(units == 0 || memcmp(array, wanted, (size_t)(2 * units)) == 0);
        intact(OUTPUT);
        /* With less room, a beginning. */
        int64_t from = below(units + 1), end = from + below(units - from + 1);
        array = (uint16_t *)room(OUTPUT, 2 * end, 2);
        int64_t at = heddle_utf8_to_utf16(level, p, valid, array, from, end);
        CHECK(at >= from && at <= end && (at == from || memcmp(array + from, wanted, (size_t)(2 * (at - from))) == 0));
        intact(OUTPUT);

        array = (uint16_t *)holding(INPUT_2, wanted, 2 * units, 2);
        CHECK(heddle_utf16_bytes(level, array, 0, units) == valid);
        uint8_t *out = room(OUTPUT, valid, 1);
        CHECK(heddle_utf16_to_utf8(level, array, 0, units, out, valid) == valid);
        CHECK(valid == 0 || memcmp(out, text.bytes, (size_t)valid) == 0);
        intact(OUTPUT);
        int64_t ascii = 0;
        while (ascii < units && wanted[ascii] < 0x80) ascii++;
        out = room(OUTPUT, units, 1);
        CHECK(heddle_utf16_ascii(level, array, 0, units, out) == ascii);
        CHECK(ascii == 0 || memcmp(out, text.bytes, (size_t)ascii) == 0);
        for (int64_t i = ascii; i < units; i++) CHECK(out[i] == 0x5a);
        intact(OUTPUT);
    }

    /* Replacement. */
    int64_t read = 0, bytes = 0;
    units = 0;
    while (read < text.length) {
        uint32_t code = 0xfffd;
        int n = character(text.bytes + read, text.length - read, &code);
        if (n == 0) break;
        if (n < 0) code = 0xfffd;
        units = put16(wanted, units, code);
        if (n > 0) memcpy(wanted_bytes + bytes, text.bytes + read, (size_t)n), bytes += n;
        else memcpy(wanted_bytes + bytes, "\xef\xbf\xbd", 3), bytes += 3;
        read += n > 0 ? n : -n;
    }
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *p = holding(INPUT, text.bytes, text.length, 1);
        CHECK(heddle_utf8_replaced_units(level, p, text.length) == (read | units << 32));
        CHECK(heddle_utf8_replaced_bytes(level, p, text.length) == (read | bytes << 32));
        uint16_t *array = (uint16_t *)room(OUTPUT, 2 * units, 2);
        CHECK(heddle_utf8_replace_to_utf16(level, p, text.length, array, 0, units) == (read | units << 32));
        CHECK(units == 0 || memcmp(array, wanted, (size_t)(2 * units)) == 0);
        intact(OUTPUT);
        uint8_t *out = room(OUTPUT, bytes, 1);
        CHECK(heddle_utf8_replace_to_utf8(level, p, text.length, out, bytes) == (read | bytes << 32));
        CHECK(bytes == 0 || memcmp(out, wanted_bytes, (size_t)bytes) == 0);
        intact(OUTPUT);
        int64_t less = below(bytes + 1);
        out = room(OUTPUT, less, 1);
        int64_t answer = heddle_utf8_replace_to_utf8(level, p, text.length, out, less), wrote = answer >> 32;
        CHECK(wrote <= less && (answer & 0xffffffff) <= read && (wrote == 0 || memcmp(out, wanted_bytes, (size_t)wrote) == 0));
        intact(OUTPUT);
        less = below(units + 1);
        array = (uint16_t *)room(OUTPUT, 2 * less, 2);
        answer = heddle_utf8_replace_to_utf16(level, p, text.length, array, 0, less), wrote = answer >> 32;
        /* Too little room is the caller's mistake here; it must only not be exceeded. */
        CHECK(wrote <= less);
        intact(OUTPUT);
    }
}
