/* The kernels of heddle_json_write.h, against twins that take a character at a time. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "heddle_cpu.h"
#include "heddle_json_write.h"
#include "heddle_utf8.h"

static struct text text;
static uint16_t units[MOST_TEXT];

enum { WRITTEN = 6 * MOST_TEXT + 16 };
static uint8_t wanted[WRITTEN];

static int64_t escaped(uint8_t *out, const uint8_t *p, int64_t n)
{
    static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
    const char *short_form = n == 1 && p[0] ? strchr(from, p[0]) : 0;
    if (short_form) return out[0] = '\\', out[1] = (uint8_t)to[short_form - from], 2;
    if (n == 1 && p[0] < 0x20) {
        char hex[8];
        snprintf(hex, sizeof hex, "\\u%04x", p[0]);
        memcpy(out, hex, 6);
        return 6;
    }
    memcpy(out, p, (size_t)n);
    return n;
}

/* What the first `most` units, or bytes, are as JSON; how many were taken. */
static int64_t twin16(int64_t length, int64_t most, int64_t room_, int64_t *taken)
{
    int64_t at = 0, i = 0;
    while (i < most) {
        uint32_t code = units[i];
        int64_t n = 1;
        if ((code & 0xf800) == 0xd800) {
            if (code < 0xdc00 && i + 1 < length && (units[i + 1] & 0xfc00) == 0xdc00)
                code = 0x10000 + ((code & 0x3ff) << 10 | (units[i + 1] & 0x3ff)), n = 2;
            else code = 0xfffd;
        }
        uint8_t one[4], out[8];
        int64_t size;
        if (code < 0x80) one[0] = (uint8_t)code, size = 1;
        else if (code < 0x800) one[0] = (uint8_t)(0xc0 | code >> 6), one[1] = (uint8_t)(0x80 | (code & 63)), size = 2;
        else if (code < 0x10000) {
            one[0] = (uint8_t)(0xe0 | code >> 12), one[1] = (uint8_t)(0x80 | (code >> 6 & 63)), one[2] = (uint8_t)(0x80 | (code & 63)), size = 3;
        } else {
            one[0] = (uint8_t)(0xf0 | code >> 18), one[1] = (uint8_t)(0x80 | (code >> 12 & 63));
            one[2] = (uint8_t)(0x80 | (code >> 6 & 63)), one[3] = (uint8_t)(0x80 | (code & 63)), size = 4;
        }
        size = escaped(out, one, size);
        if (at + size > room_) break;
        memcpy(wanted + at, out, (size_t)size);
        at += size;
        i += n;
    }
    *taken = i;
    return at;
}

static int64_t some_room(int64_t full)
{
    return chance(2) ? full : below(full + 1);
}

void check_json_write(void)
{
    any_text(&text);
    int64_t length = text.length, most = below(length + 1);
    for (int64_t i = 0; i < length; i++) {
        units[i] = text.bytes[i];
        if (chance(40)) units[i] = (uint16_t)any();
        if (chance(40)) units[i] = (uint16_t)(0xd800 + below(0x800));
    }
    if (chance(2)) most = length;
    int64_t taken, space = some_room(6 * length), size = twin16(length, most, space, &taken), offset = below(3);
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        uint16_t *array = (uint16_t *)room(INPUT, 2 * (offset + length), 2);
        memcpy(array + offset, units, (size_t)(2 * length));
        uint8_t *out = room(OUTPUT, space, 1);
        int64_t answer = heddle_json_write_utf16(array, offset, length, most, out, space, level);
        intact(OUTPUT);
        CHECK(answer == (taken | size << 32) && memcmp(out, wanted, (size_t)size) == 0);
    }
    /* Bytes: every level as the first one, whose result is UTF-8. */
    int64_t first = 0;
    space = some_room(6 * length);
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *p = holding(INPUT, text.bytes, length, 1);
        uint8_t *out = room(OUTPUT, space, 1);
        int64_t answer = heddle_json_write_utf8(p, length, most, out, space, level), wrote = answer >> 32;
        intact(OUTPUT);
        CHECK(wrote <= space && (answer & 0xffffffff) <= (most + 3 < length ? most + 3 : length));
        if (level == 0) {
            first = answer;
            memcpy(wanted, out, (size_t)wrote);
            CHECK(heddle_utf8_valid(0, out, wrote) == wrote);
        }
        CHECK(answer == first && memcmp(out, wanted, (size_t)wrote) == 0);
    }
}
