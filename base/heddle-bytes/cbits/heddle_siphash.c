/*
 * Implements heddle_siphash.h.
 *
 * As the reference implementation, except for the last bytes: those that do not fill a word are read by one or two
 * loads that overlap earlier ones, and not one by one.
 */
#include "heddle_siphash.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

struct sip {
    uint64_t v0, v1, v2, v3;
};

INLINE uint64_t load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

INLINE uint64_t load32(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* Loads fewer than 8 bytes as the low bytes of a word. */
INLINE uint64_t load_short(const uint8_t *p, int64_t n)
{
    if (n >= 4) return load32(p) | load32(p + n - 4) << (8 * (n - 4));
    if (n == 0) return 0;
    return (uint64_t)p[0] | (uint64_t)p[n >> 1] << (8 * (n >> 1)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

INLINE uint64_t rotate(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

INLINE struct sip round_(struct sip s)
{
    s.v0 += s.v1; s.v2 += s.v3;
    s.v1 = rotate(s.v1, 13) ^ s.v0; s.v3 = rotate(s.v3, 16) ^ s.v2;
    s.v0 = rotate(s.v0, 32);
    s.v2 += s.v1; s.v0 += s.v3;
    s.v1 = rotate(s.v1, 17) ^ s.v2; s.v3 = rotate(s.v3, 21) ^ s.v0;
    s.v2 = rotate(s.v2, 32);
    return s;
}

INLINE struct sip absorb(struct sip s, uint64_t word, int rounds)
{
    s.v3 ^= word;
    s = round_(s);
    if (rounds == 2) s = round_(s);
    s.v0 ^= word;
    return s;
}

INLINE uint64_t last_rounds(struct sip s, int rounds)
{
    s.v2 ^= 0xff;
    s = round_(round_(round_(s)));
    if (rounds == 2) s = round_(s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

INLINE uint64_t whole(struct sip s, const uint8_t *p, int64_t n, int rounds)
{
    const uint8_t *end = p + n;
    uint64_t last = (uint64_t)n << 56;
    if (n < 8) {
        last |= load_short(p, n);
    } else {
        for (; end - p >= 8; p += 8)
            s = absorb(s, load64(p), rounds);
        /* The end of the last 8 bytes. In two steps, because a shift by 64 is undefined. */
        last |= load64(end - 8) >> (56 - 8 * (n & 7)) >> 8;
    }
    return last_rounds(absorb(s, last, rounds), rounds);
}

uint64_t heddle_sip13(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t length)
{
    return whole((struct sip){v0, v1, v2, v3}, bytes, length, 1);
}

uint64_t heddle_sip24(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t length)
{
    return whole((struct sip){v0, v1, v2, v3}, bytes, length, 2);
}

uint64_t heddle_sip13_at(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t offset,
                         int64_t length)
{
    return whole((struct sip){v0, v1, v2, v3}, bytes + offset, length, 1);
}

uint64_t heddle_sip13_end(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3)
{
    return last_rounds((struct sip){v0, v1, v2, v3}, 1);
}

uint64_t heddle_sip13_word(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, uint64_t word)
{
    return last_rounds(absorb((struct sip){v0, v1, v2, v3}, word, 1), 1);
}

INLINE void update(uint64_t *stream, const uint8_t *p, int64_t n, int rounds)
{
    struct sip s = {stream[0], stream[1], stream[2], stream[3]};
    const uint8_t *end = p + n;
    uint64_t tail = stream[4];
    int64_t held = (int64_t)(stream[5] & 7);
    stream[5] += (uint64_t)n;
    if (held + n < 8) {
        stream[4] = tail | load_short(p, n) << (8 * held);
        return;
    }
    if (held) {
        tail |= load_short(p, 8 - held) << (8 * held);
        s = absorb(s, tail, rounds);
        p += 8 - held;
    }
    for (; end - p >= 8; p += 8)
        s = absorb(s, load64(p), rounds);
    stream[0] = s.v0;
    stream[1] = s.v1;
    stream[2] = s.v2;
    stream[3] = s.v3;
    stream[4] = load_short(p, end - p);
}

void heddle_sip_update(uint64_t stream[6], const uint8_t *bytes, int64_t offset, int64_t length, int rounds)
{
    if (rounds == 1)
        update(stream, bytes + offset, length, 1);
    else
        update(stream, bytes + offset, length, 2);
}

uint64_t heddle_sip_finish(const uint64_t stream[6], int rounds)
{
    struct sip s = {stream[0], stream[1], stream[2], stream[3]};
    uint64_t last = stream[5] << 56 | stream[4];
    return rounds == 1 ? last_rounds(absorb(s, last, 1), 1) : last_rounds(absorb(s, last, 2), 2);
}
