/*
 * The kernels of one vector level; heddle_search.c includes this once per level, after defining
 *
 *   WIDTH, VECTOR   bytes per vector, and its type
 *   NAME(f)         the level's name for a function
 *   SMALLER(f)      the next lower level's, for texts shorter than a vector
 *   TARGET          the attribute that allows the instructions
 *   LOAD SPLAT EQUAL OR AND MASK ZERO SUBTRACT SUM POPCOUNT TOP
 *
 * All loads are unaligned and inside the text. A rest shorter than a vector is covered by the last whole
 * vector, from whose mask the bits that were seen before are dropped.
 */

/* The bits of a mask from the given one on. */
#define FROM(bit) (~(uint32_t)0 << (bit))

TARGET static int64_t NAME(find)(const uint8_t *p, int64_t length, uint8_t byte)
{
    if (length < WIDTH) return SMALLER(find)(p, length, byte);
    const VECTOR wanted = SPLAT(byte);
    int64_t at = 0;
    uint32_t mask = MASK(EQUAL(LOAD(p), wanted));
    if (mask) return __builtin_ctz(mask);
    for (at = WIDTH; at + 4 * WIDTH <= length; at += 4 * WIDTH) {
        VECTOR a = EQUAL(LOAD(p + at), wanted), b = EQUAL(LOAD(p + at + WIDTH), wanted);
        VECTOR c = EQUAL(LOAD(p + at + 2 * WIDTH), wanted), d = EQUAL(LOAD(p + at + 3 * WIDTH), wanted);
        if (!MASK(OR(OR(a, b), OR(c, d)))) continue;
        if ((mask = MASK(a))) return at + __builtin_ctz(mask);
        if ((mask = MASK(b))) return at + WIDTH + __builtin_ctz(mask);
        if ((mask = MASK(c))) return at + 2 * WIDTH + __builtin_ctz(mask);
        return at + 3 * WIDTH + __builtin_ctz(MASK(d));
    }
    for (; at + WIDTH <= length; at += WIDTH)
        if ((mask = MASK(EQUAL(LOAD(p + at), wanted)))) return at + __builtin_ctz(mask);
    if (at == length) return -1;
    mask = MASK(EQUAL(LOAD(p + length - WIDTH), wanted));
    return mask ? length - WIDTH + __builtin_ctz(mask) : -1;
}

TARGET static int64_t NAME(find_end)(const uint8_t *p, int64_t length, uint8_t byte)
{
    if (length < WIDTH) return SMALLER(find_end)(p, length, byte);
    const VECTOR wanted = SPLAT(byte);
    int64_t end = length;
    for (; end >= WIDTH; end -= WIDTH) {
        uint32_t mask = MASK(EQUAL(LOAD(p + end - WIDTH), wanted));
        if (mask) return end - WIDTH + TOP(mask);
    }
    if (end == 0) return -1;
    uint32_t mask = MASK(EQUAL(LOAD(p), wanted));
    return mask ? TOP(mask) : -1;
}

TARGET static int64_t NAME(count)(const uint8_t *p, int64_t length, uint8_t byte)
{
    if (length < WIDTH) return SMALLER(count)(p, length, byte);
    const VECTOR wanted = SPLAT(byte);
    int64_t at = 0, total = 0;
    while (at + 4 * WIDTH <= length) {
        /* Each lane counts to 255 at most before it is added up. */
        int64_t rounds = (length - at) / (4 * WIDTH), end = at + (rounds < 255 ? rounds : 255) * 4 * WIDTH;
        VECTOR a = ZERO, b = ZERO, c = ZERO, d = ZERO;
        for (; at < end; at += 4 * WIDTH) {
            a = SUBTRACT(a, EQUAL(LOAD(p + at), wanted));
            b = SUBTRACT(b, EQUAL(LOAD(p + at + WIDTH), wanted));
            c = SUBTRACT(c, EQUAL(LOAD(p + at + 2 * WIDTH), wanted));
            d = SUBTRACT(d, EQUAL(LOAD(p + at + 3 * WIDTH), wanted));
        }
        total += SUM(a) + SUM(b) + SUM(c) + SUM(d);
    }
    for (; at + WIDTH <= length; at += WIDTH) total += POPCOUNT(MASK(EQUAL(LOAD(p + at), wanted)));
    if (at < length) {
        uint32_t mask = MASK(EQUAL(LOAD(p + length - WIDTH), wanted));
        total += POPCOUNT(mask & FROM(WIDTH - (length - at)));
    }
    return total;
}

TARGET static int64_t NAME(places)(const uint8_t *p, int64_t length, int64_t from, uint8_t byte, int64_t *out,
                                   int64_t capacity)
{
    const VECTOR wanted = SPLAT(byte);
    int64_t used = 0, at = from;
    if (length - from < WIDTH) return SMALLER(places)(p, length, from, byte, out, capacity);
    while (at < length) {
        int64_t base = at + WIDTH <= length ? at : length - WIDTH;
        uint32_t mask = MASK(EQUAL(LOAD(p + base), wanted)) & FROM(at - base);
        for (; mask; mask &= mask - 1) {
            if (used == capacity) return used;
            out[used++] = base + __builtin_ctz(mask);
        }
        at = base + WIDTH;
    }
    return used;
}

/*
 * Starts are tried a vector at a time. The needle is compared at starts where both chosen bytes occur at
 * their distances. `fold` is a constant at both calls.
 */
TARGET static inline __attribute__((always_inline)) int64_t NAME(pair)(const struct heddle_needle *needle,
                                                                       const uint8_t *text, int64_t last, int64_t at,
                                                                       struct search *search, int fold)
{
    const VECTOR byte1 = SPLAT(needle->byte1), byte2 = SPLAT(needle->byte2);
    const VECTOR mask1 = SPLAT(needle->mask1), mask2 = SPLAT(needle->mask2);
    const uint8_t *one = text + needle->at1, *two = text + needle->at2;
#define SEEN1(i) EQUAL(fold ? OR(LOAD(one + (i)), mask1) : LOAD(one + (i)), byte1)
#define SEEN2(i) EQUAL(fold ? OR(LOAD(two + (i)), mask2) : LOAD(two + (i)), byte2)
#define STARTS(i) AND(SEEN1(i), SEEN2(i))
#define TRY(vector, base)                                                                                              \
    do {                                                                                                               \
        uint32_t mask_ = MASK(vector);                                                                                 \
        if (mask_ && (found = try_starts(needle, text, (base), mask_, search)) != NOT_HERE) return found;              \
    } while (0)
    int64_t found;
    for (; at + 4 * WIDTH <= last + 1; at += 4 * WIDTH) {
        VECTOR a = STARTS(at), b = STARTS(at + WIDTH), c = STARTS(at + 2 * WIDTH), d = STARTS(at + 3 * WIDTH);
        if (!MASK(OR(OR(a, b), OR(c, d)))) continue;
        TRY(a, at);
        TRY(b, at + WIDTH);
        TRY(c, at + 2 * WIDTH);
        TRY(d, at + 3 * WIDTH);
    }
    for (; at + WIDTH <= last + 1; at += WIDTH) TRY(STARTS(at), at);
    if (at <= last) {
        int64_t base = last + 1 - WIDTH;
        uint32_t mask = MASK(STARTS(base)) & FROM(at - base);
        if (mask) return try_starts(needle, text, base, mask, search);
    }
    return NOT_HERE;
#undef SEEN1
#undef SEEN2
#undef STARTS
#undef TRY
}

/* For needles of two bytes or more, at the starts from `at` to `last`. */
TARGET static int64_t NAME(starts)(const struct heddle_needle *needle, const uint8_t *text, int64_t last, int64_t at,
                                   struct search *search)
{
    if (last + 1 < WIDTH) return SMALLER(starts)(needle, text, last, at, search);
    return needle->fold ? NAME(pair)(needle, text, last, at, search, 1) : NAME(pair)(needle, text, last, at, search, 0);
}

#undef FROM
#undef WIDTH
#undef VECTOR
#undef NAME
#undef SMALLER
#undef TARGET
#undef LOAD
#undef SPLAT
#undef EQUAL
#undef OR
#undef AND
#undef MASK
#undef ZERO
#undef SUBTRACT
#undef SUM
#undef POPCOUNT
#undef TOP
