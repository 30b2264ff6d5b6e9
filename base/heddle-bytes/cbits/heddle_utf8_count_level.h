/*
 * Lengths with one width of vectors, for heddle_utf8_code.c, which defines the names in capitals and includes this
 * for each width.
 */

/* Counts bytes that begin a character; on request, those that begin one of four bytes count twice. */
TARGET ALWAYS int64_t NAME(count)(const uint8_t *p, int64_t length, int twice)
{
    enum { MOST = 120 }; /* With this many vectors, no counter of one byte overflows. */
    int64_t n = 0, at = 0;
    while (at + WIDTH <= length) {
        VECTOR counters = ZERO;
        for (int k = 0; k < MOST && at + WIDTH <= length; k++, at += WIDTH) {
            VECTOR here = LOAD(p + at);
            counters = SUB8(counters, GREATER8(here, SPLAT8(-65)));
            if (twice) counters = SUB8(counters, EQUAL8(MAX8(here, SPLAT8(0xf0)), here));
        }
        n += SUM8(counters);
    }
    return n + (twice ? units_plain(p + at, length - at) : characters_plain(p + at, length - at));
}

TARGET static int64_t NAME(characters)(const uint8_t *p, int64_t length)
{
    return NAME(count)(p, length, 0);
}

TARGET static int64_t NAME(units)(const uint8_t *p, int64_t length)
{
    return NAME(count)(p, length, 1);
}

/* Three bytes for each unit, less one if it is below 800, one if it is below 80, and one if it is a surrogate. */
TARGET static int64_t NAME(bytes)(const uint16_t *array, int64_t from, int64_t to)
{
    enum { LANES = WIDTH / 2, MOST = 8192 };
    int64_t n = 0, at = from;
    while (at + LANES <= to) {
        VECTOR less = ZERO;
        for (int k = 0; k < MOST && at + LANES <= to; k++, at += LANES) {
            VECTOR here = LOAD(array + at);
            less = ADD16(less, EQUAL16(SUBTRACT16(here, SPLAT16(0x7f)), ZERO));
            less = ADD16(less, EQUAL16(SUBTRACT16(here, SPLAT16(0x7ff)), ZERO));
            less = ADD16(less, EQUAL16(AND(here, SPLAT16(0xf800)), SPLAT16(0xd800)));
        }
        n += SUM16(less);
    }
    return n + 3 * (at - from) + bytes_plain(array, at, to);
}
