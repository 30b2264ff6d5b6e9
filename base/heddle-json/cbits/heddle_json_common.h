/* Shared by the JSON kernels of all levels. */
#ifndef HEDDLE_JSON_COMMON_H
#define HEDDLE_JSON_COMMON_H

#include <stdint.h>
#include <string.h>

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* Loads eight bytes, the first one lowest. */
static inline uint64_t load64(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

/* Loads four bytes. */
static inline uint32_t load32(const uint8_t *p)
{
    uint32_t w;
    memcpy(&w, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap32(w);
#endif
    return w;
}

/* The high bits of bytes that are 0. Bits above the first one may be wrong. */
static inline uint64_t zero64(uint64_t w)
{
    return (w - ONES) & ~w & HIGHS;
}

/* The same for bytes that are less than n, which is at most 128. */
static inline uint64_t less64(uint64_t w, uint8_t n)
{
    return (w - ONES * n) & ~w & HIGHS;
}

static inline int is_special(uint8_t c)
{
    return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

static inline int is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

#endif
