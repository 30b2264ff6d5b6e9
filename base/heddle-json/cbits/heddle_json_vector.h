/*
 * Included once for each level: LEVEL is its number, NAME(f) names functions, TARGET is their attribute. Defines,
 * each from p up to end and without reading beyond it:
 *   special   the first byte that is a quote, a backslash, a control character or not ASCII
 *   quote     the first byte that is a quote or a backslash
 *   visible   the first byte that is no white space
 *   digits    the first byte that is no digit
 */
#define INLINE TARGET static inline __attribute__((always_inline))

#if LEVEL == 0

INLINE const uint8_t *NAME(special)(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t w = load64(p), found = less64(w, 0x20) | zero64(w ^ ONES * '"') | zero64(w ^ ONES * '\\');
        found |= w & HIGHS;
        if (found) return p + (__builtin_ctzll(found) >> 3);
    }
    while (p < end && !is_special(*p)) p++;
    return p;
}

INLINE const uint8_t *NAME(quote)(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t w = load64(p), found = zero64(w ^ ONES * '"') | zero64(w ^ ONES * '\\');
        if (found) return p + (__builtin_ctzll(found) >> 3);
    }
    while (p < end && *p != '"' && *p != '\\') p++;
    return p;
}

INLINE const uint8_t *NAME(visible)(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 8 && load64(p) == ONES * ' '; p += 8) continue;
    while (p < end && is_space(*p)) p++;
    return p;
}

INLINE const uint8_t *NAME(digits)(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (uint8_t)(*p - '0') < 10) p++;
    return p;
}

#else

#if LEVEL == 3
/* The bytes up to end, followed by zeros, which are neither digits nor white space. */
INLINE __m512i NAME(load)(const uint8_t *p, const uint8_t *end)
{
    if (end - p >= 64) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi8((1ull << (end - p)) - 1, p);
}
#endif

INLINE const uint8_t *NAME(special)(const uint8_t *p, const uint8_t *end)
{
#if LEVEL == 3
    /* Most strings are short. */
    if (end - p >= 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        uint32_t found = _mm256_cmplt_epi8_mask(v, _mm256_set1_epi8(0x20)) | _mm256_cmpeq_epi8_mask(v, _mm256_set1_epi8('"')) |
                         _mm256_cmpeq_epi8_mask(v, _mm256_set1_epi8('\\'));
        if (found) return p + __builtin_ctz(found);
        p += 32;
    }
    for (; p < end; p += 64) {
        __m512i v = NAME(load)(p, end);
        uint64_t found = _mm512_cmplt_epi8_mask(v, _mm512_set1_epi8(0x20)) | _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) |
                         _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));
        /* Bytes after the end count as control characters. */
        if (found) return p + __builtin_ctzll(found);
    }
    return end;
#else
#if LEVEL == 2
    for (; end - p >= 32; p += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i found = _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')), _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'))),
                                        _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), v));
        uint32_t mask = (uint32_t)_mm256_movemask_epi8(found);
        if (mask) return p + __builtin_ctz(mask);
    }
#endif
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
                                     _mm_cmpgt_epi8(_mm_set1_epi8(0x20), v));
        uint32_t mask = (uint32_t)_mm_movemask_epi8(found);
        if (mask) return p + __builtin_ctz(mask);
    }
    while (p < end && !is_special(*p)) p++;
    return p;
#endif
}

INLINE const uint8_t *NAME(quote)(const uint8_t *p, const uint8_t *end)
{
#if LEVEL == 3
    for (; p < end; p += 64) {
        __m512i v = NAME(load)(p, end);
        uint64_t found = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) | _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));
        if (found) return p + __builtin_ctzll(found);
    }
    return end;
#else
#if LEVEL == 2
    for (; end - p >= 32; p += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i found = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')), _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));
        uint32_t mask = (uint32_t)_mm256_movemask_epi8(found);
        if (mask) return p + __builtin_ctz(mask);
    }
#endif
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        uint32_t mask = (uint32_t)_mm_movemask_epi8(found);
        if (mask) return p + __builtin_ctz(mask);
    }
    while (p < end && *p != '"' && *p != '\\') p++;
    return p;
#endif
}

/* A byte is white space if the table entry of its low four bits equals the byte. */
INLINE const uint8_t *NAME(visible)(const uint8_t *p, const uint8_t *end)
{
    const __m128i spaces = _mm_setr_epi8(0x20, 0, 0, 0, 0, 0, 0, 0, 0, 9, 10, 0, 0, 13, 0, 0);
#if LEVEL == 3
    for (; p < end; p += 64) {
        __m512i v = NAME(load)(p, end);
        uint64_t found = _mm512_cmpneq_epi8_mask(v, _mm512_shuffle_epi8(_mm512_broadcast_i32x4(spaces), v));
        if (found) return p + __builtin_ctzll(found);
    }
    return end;
#else
#if LEVEL == 2
    for (; end - p >= 32; p += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p);
        __m256i same = _mm256_cmpeq_epi8(v, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(spaces), v));
        uint32_t mask = ~(uint32_t)_mm256_movemask_epi8(same);
        if (mask) return p + __builtin_ctz(mask);
    }
#endif
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        uint32_t mask = 0xffff & ~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_shuffle_epi8(spaces, v)));
        if (mask) return p + __builtin_ctz(mask);
    }
    while (p < end && is_space(*p)) p++;
    return p;
#endif
}

INLINE const uint8_t *NAME(digits)(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8('0'));
        __m128i digit = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(9)), v);
        uint32_t mask = 0xffff & ~(uint32_t)_mm_movemask_epi8(digit);
        if (mask) return p + __builtin_ctz(mask);
    }
    while (p < end && (uint8_t)(*p - '0') < 10) p++;
    return p;
}

#endif
