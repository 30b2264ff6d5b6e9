/*
 * Validity of UTF-8 with one width of vectors, for heddle_utf8_check.c, which defines the names in capitals and
 * includes this for each width.
 */

/* The errors in these bytes, given the bytes before them: a zero byte means no error. */
TARGET static inline __attribute__((always_inline)) VECTOR NAME(wrong)(VECTOR here, VECTOR before)
{
    VECTOR cross = CROSS(here, before);
    VECTOR one = EARLIER(here, cross, 1);
    VECTOR pair = AND(AND(LOOK_UP(TABLE(BEFORE_HIGH), HIGH_HALF(one)), LOOK_UP(TABLE(BEFORE_LOW), AND(one, SPLAT(0x0f)))),
                      LOOK_UP(TABLE(THIS_HIGH), HIGH_HALF(here)));
    /* Two continuation bytes must follow a three-byte lead, three a four-byte lead, and none may occur elsewhere. */
    VECTOR third = SUBTRACT(EARLIER(here, cross, 2), SPLAT(0xe0 - 0x80));
    VECTOR fourth = SUBTRACT(EARLIER(here, cross, 3), SPLAT(0xf0 - 0x80));
    return XOR(AND(OR(third, fourth), SPLAT(0x80)), pair);
}

TARGET static int64_t NAME(valid)(const uint8_t *p, int64_t length)
{
    enum { BLOCK = 64, PARTS = BLOCK / WIDTH };
    VECTOR before = ZERO;
    int open = 0; /* Can a character be incomplete before this block? */
    int64_t at = 0;
    while (at + BLOCK <= length) {
        VECTOR part[PARTS], all = ZERO;
        for (int i = 0; i < PARTS; i++) {
            part[i] = LOAD(p + at + i * WIDTH);
            all = OR(all, part[i]);
        }
        if (IS_ASCII(all)) {
            if (open && unfinished(p + at)) return valid_from(p, at, length);
            open = 0;
            before = ZERO;
            at += BLOCK;
            while (at + 4 * BLOCK <= length) {
                VECTOR more = ZERO;
                for (int i = 0; i < 4 * PARTS; i++) more = OR(more, LOAD(p + at + i * WIDTH));
                if (!IS_ASCII(more)) break;
                at += 4 * BLOCK;
            }
            continue;
        }
        all = NAME(wrong)(part[0], before);
        for (int i = 1; i < PARTS; i++) all = OR(all, NAME(wrong)(part[i], part[i - 1]));
        if (!IS_ZERO(all)) return valid_from(p, at, length);
        before = part[PARTS - 1];
        open = 1;
        at += BLOCK;
    }
    if (at < length) {
        int64_t left = length - at;
        /* The zeros after the text are ASCII: an incomplete character at the end is too short. */
#if defined(LOAD_SOME)
        VECTOR part[1] = {LOAD_SOME(p + at, left)};
#else
        uint8_t rest[BLOCK] = {0};
        memcpy(rest, p + at, (size_t)left);
        VECTOR part[PARTS];
        for (int i = 0; i < PARTS; i++) part[i] = LOAD(rest + i * WIDTH);
#endif
        VECTOR all = NAME(wrong)(part[0], before);
        for (int i = 1; i < PARTS; i++) all = OR(all, NAME(wrong)(part[i], part[i - 1]));
        return IS_ZERO(all) ? length : valid_from(p, at, length);
    }
    /* Without a rest, an incomplete last character has not been detected. */
    if (open && unfinished(p + length)) return valid_from(p, length, length);
    return length;
}

#undef TARGET
#undef NAME
#undef WIDTH
#undef VECTOR
#undef LOAD
#undef TABLE
#undef SPLAT
#undef ZERO
#undef LOOK_UP
#undef HIGH_HALF
#undef AND
#undef OR
#undef XOR
#undef SUBTRACT
#undef EARLIER
#undef CROSS
#undef IS_ZERO
#undef IS_ASCII
