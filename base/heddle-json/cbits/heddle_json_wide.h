/*
 * Scans text in a string that is not all ASCII; included once for each level from 1 on, see heddle_json_vector.h.
 *
 * UTF-8 is checked by three table look-ups for each byte (Keiser and Lemire, "Validating UTF-8 in less than one
 * instruction per byte"): both halves of the previous byte, and the upper half of this one. Each table has a bit for
 * each error that the half allows; a bit set in all three is an error. Third and fourth bytes are checked by the
 * bytes two and three before, which are loaded directly.
 */
#if LEVEL == 1
#define SIZE 16
#define VECTOR __m128i
#define OP(f) _mm_##f
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define BOTH(a, b) _mm_and_si128(a, b)
#define EITHER(a, b) _mm_or_si128(a, b)
#define DIFFER(a, b) _mm_xor_si128(a, b)
#define TABLE(t) LOAD(t)
#define BITS(v) ((uint64_t)(uint32_t)_mm_movemask_epi8(v))
#elif LEVEL == 2
#define SIZE 32
#define VECTOR __m256i
#define OP(f) _mm256_##f
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define BOTH(a, b) _mm256_and_si256(a, b)
#define EITHER(a, b) _mm256_or_si256(a, b)
#define DIFFER(a, b) _mm256_xor_si256(a, b)
#define TABLE(t) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(t)))
#define BITS(v) ((uint64_t)(uint32_t)_mm256_movemask_epi8(v))
#else
#define SIZE 64
#define VECTOR __m512i
#define OP(f) _mm512_##f
#define LOAD(p) _mm512_loadu_si512(p)
#define BOTH(a, b) _mm512_and_si512(a, b)
#define EITHER(a, b) _mm512_or_si512(a, b)
#define DIFFER(a, b) _mm512_xor_si512(a, b)
#define TABLE(t) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(t)))
#endif

/* Finds the first quote, backslash or control character. It stops earlier at the start of a character that is invalid, or
   too near to the end to be checked. The bytes begin at start; a character begins at p. */
TARGET static __attribute__((noinline)) const uint8_t *NAME(wide)(const uint8_t *p, const uint8_t *start, const uint8_t *end)
{
    const uint8_t *const first = p;
    if (p - start < 3) {
        p = one_by_one(p, end - p > 8 ? p + 8 : end);
        if (p == end || *p < 0x80 || p - start < 3) return p;
    }
    const VECTOR before_high = TABLE(utf8_before_high), before_low = TABLE(utf8_before_low), this_high = TABLE(utf8_this_high);
    const VECTOR nibble = OP(set1_epi8)(0x0f);
    for (; end - p >= SIZE; p += SIZE) {
        VECTOR v = LOAD(p), one = LOAD(p - 1), two = LOAD(p - 2), three = LOAD(p - 3);
        VECTOR errors = BOTH(BOTH(OP(shuffle_epi8)(before_high, BOTH(OP(srli_epi16)(one, 4), nibble)),
                                  OP(shuffle_epi8)(before_low, BOTH(one, nibble))),
                             OP(shuffle_epi8)(this_high, BOTH(OP(srli_epi16)(v, 4), nibble)));
        VECTOR later = EITHER(OP(subs_epu8)(two, OP(set1_epi8)(0x60)), OP(subs_epu8)(three, OP(set1_epi8)(0x70)));
        errors = DIFFER(errors, BOTH(later, OP(set1_epi8)((char)0x80)));
#if LEVEL == 3
        uint64_t wrong = _mm512_test_epi8_mask(errors, errors);
        uint64_t found = _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(0x20)) | _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) |
                         _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));
#else
        uint64_t wrong = BITS(OP(cmpeq_epi8)(errors, DIFFER(v, v))) ^ (~0ull >> (64 - SIZE));
        VECTOR control = OP(cmpeq_epi8)(OP(min_epu8)(v, OP(set1_epi8)(0x1f)), v);
        uint64_t found = BITS(EITHER(EITHER(OP(cmpeq_epi8)(v, OP(set1_epi8)('"')), OP(cmpeq_epi8)(v, OP(set1_epi8)('\\'))), control));
#endif
        if (!(found | wrong)) continue;
        /* Bytes after the byte that was found do not count; a sequence that it cuts short is an error at that byte. */
        if (found && !(wrong & (found ^ (found - 1)))) return p + __builtin_ctzll(found);
        break;
    }
    /* Go back to the start of a character, and continue one by one. */
    if (p > first) {
        if (p[-1] >= 0xc0)
            p -= 1;
        else if (p[-2] >= 0xe0)
            p -= 2;
        else if (p[-3] >= 0xf0)
            p -= 3;
    }
    return one_by_one(p, end);
}

#undef SIZE
#undef VECTOR
#undef OP
#undef LOAD
#undef BOTH
#undef EITHER
#undef DIFFER
#undef TABLE
#undef BITS
