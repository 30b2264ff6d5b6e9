/* heddle_mask.h against a twin that takes a byte at a time; heddle_deflate.h with random steps, valid and mutated. */
#include "harness.h"

#include <string.h>
#include <sys/mman.h>

#include "heddle_cpu.h"
#include "heddle_deflate.h"
#include "heddle_mask.h"

static struct text text, packed;
static uint8_t wanted[MOST_TEXT];

void check_mask(void)
{
    any_text(&text);
    uint32_t key = (uint32_t)any();
    for (int64_t i = 0; i < text.length; i++) wanted[i] = text.bytes[i] ^ (uint8_t)(key >> (8 * (i & 3)));
    for (int level = 0; level <= heddle_cpu_best(); level++) {
        const uint8_t *from = holding(INPUT, text.bytes, text.length, 1);
        uint8_t *to = room(OUTPUT, text.length, 1);
        heddle_mask(level, to, from, (size_t)text.length, key);
        CHECK(text.length == 0 || memcmp(to, wanted, (size_t)text.length) == 0);
        intact(OUTPUT);
        uint8_t *same = holding(INPUT_2, text.bytes, text.length, 1);
        heddle_mask(level, same, same, (size_t)text.length, key);
        CHECK(text.length == 0 || memcmp(same, wanted, (size_t)text.length) == 0);
        intact(INPUT_2);
    }
}

/* Inflate in random steps; the length, or -1. What is made is compared with the text as far as that goes, if asked. */
static int64_t inflated(struct heddle_flate *flate, const uint8_t *bytes, int64_t length, int64_t most, int compare)
{
    int64_t used = 0, made = 0;
    for (int full = 0; used < length || full;) {
        int64_t some = below(length - used + 1), space = 1 + below(chance(4) ? 32768 : 300);
        const uint8_t *from = holding(INPUT, bytes + used, some, 1);
        uint8_t *to = room(OUTPUT, space, 1);
        int64_t r = heddle_inflate_step(flate, from, (size_t)some, to, (size_t)space);
        intact(OUTPUT);
        if (r < 0) return -1;
        int64_t in = r >> 32, out = r & 0xffffffff;
        CHECK(in >= 0 && in <= some && out >= 0 && out <= space);
        if (compare) CHECK(made + out <= text.length && (out == 0 || memcmp(to, text.bytes + made, (size_t)out) == 0));
        used += in;
        made += out;
        full = out == space;
        if (made > most) return made;
    }
    return made;
}

/* What a caller's subtraction that went wrong makes of a length or a room. */
static void check_negative(struct heddle_flate *deflater, struct heddle_flate *inflater)
{
    size_t negative = (size_t)0 - (size_t)(1 + below(chance(2) ? 1 << 20 : 300));
    const uint8_t *from = holding(INPUT, text.bytes, text.length, 1);
    size_t length = (size_t)text.length;
    uint8_t *to = room(OUTPUT, 100, 1);
    CHECK(heddle_deflate_step(deflater, from, length, to, negative, 1) == -1);
    CHECK(heddle_deflate_step(deflater, from, negative, to, 100, 1) == -1);
    CHECK(heddle_inflate_step(inflater, from, length, to, negative) == -1);
    CHECK(heddle_inflate_step(inflater, from, negative, to, 100) == -1);
    intact(OUTPUT);
}

/* Lengths and rooms whose low 32 bits are few or none: memory is reserved, and little of it is touched. */
static void check_huge(struct heddle_flate *deflater, struct heddle_flate *inflater)
{
    const size_t reserved = ((size_t)1 << 32) + 4096;
    static uint8_t *memory;
    if (!memory) {
        memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(memory != MAP_FAILED);
    }
    size_t huge = ((size_t)1 << 32) + (size_t)below(5);
    uint8_t packed_zeros[300], zeros[300] = {0};
    /* A huge input, of zeros, into a little room. */
    int64_t r = heddle_deflate_step(deflater, memory, huge, packed_zeros, sizeof packed_zeros, 0);
    CHECK(r >= 0 && r >> 32 > 0 && (r & 0xffffffff) <= (int64_t)sizeof packed_zeros);
    heddle_flate_reset(deflater);
    /* A little input into a huge room; and back. */
    r = heddle_deflate_step(deflater, zeros, sizeof zeros, memory, huge, 1);
    CHECK(r >> 32 == (int64_t)sizeof zeros && (r & 0xffffffff) > 4 && (r & 0xffffffff) < (int64_t)sizeof zeros);
    memcpy(packed_zeros, memory, (size_t)(r & 0xffffffff));
    r = heddle_inflate_step(inflater, packed_zeros, (size_t)(r & 0xffffffff), memory, huge);
    CHECK((r & 0xffffffff) == (int64_t)sizeof zeros && memcmp(memory, zeros, sizeof zeros) == 0);
    heddle_flate_reset(deflater);
    heddle_flate_reset(inflater);
}

void check_deflate(void)
{
    static const uint8_t tail[4] = {0, 0, 0xff, 0xff};
    any_text(&text);
    /* Random bytes grow by a little. */
    if (text.length > MOST_TEXT - 1000) text.length = MOST_TEXT - 1000;
    struct heddle_flate *deflater = heddle_deflater(1 + (int)below(9), 9 + (int)below(7)), *inflater = heddle_inflater();
    CHECK(deflater && inflater);
    check_negative(deflater, inflater);
    if (chance(50)) check_huge(deflater, inflater);
    for (int message = 0; message < 2; message++) {
        int64_t used = 0;
        packed.length = 0;
        for (;;) {
            int64_t some = below(text.length - used + 1), space = 1 + below(chance(4) ? 32768 : 300);
            if (chance(4)) some = text.length - used;
            if (space > MOST_TEXT - packed.length) space = MOST_TEXT - packed.length;
            CHECK(space > 0);
            int finish = used + some == text.length;
            const uint8_t *from = holding(INPUT, text.bytes + used, some, 1);
            uint8_t *to = room(OUTPUT, space, 1);
            int64_t r = heddle_deflate_step(deflater, from, (size_t)some, to, (size_t)space, finish);
            intact(OUTPUT);
            CHECK(r >= 0);
            int64_t in = r >> 32, out = r & 0xffffffff;
            memcpy(packed.bytes + packed.length, to, (size_t)out);
            packed.length += out;
            used += in;
            if (finish && in == some && out < space) break;
        }
        CHECK(packed.length >= 5 && memcmp(packed.bytes + packed.length - 4, tail, 4) == 0);
        CHECK(inflated(inflater, packed.bytes, packed.length, MOST_TEXT, 1) == text.length);
        CHECK(heddle_inflate_whole(inflater));
        heddle_flate_reset(deflater);
        heddle_flate_reset(inflater);
    }
    /* Anything else ends, and touches nothing else. */
    if (chance(2)) any_text(&packed);
    else mutate(&packed);
    if (inflated(inflater, packed.bytes, packed.length, 1 << 20, 0) >= 0) (void)heddle_inflate_whole(inflater);
    heddle_flate_free(deflater);
    heddle_flate_free(inflater);
    CHECK(heddle_flate_count() == 0);
}
