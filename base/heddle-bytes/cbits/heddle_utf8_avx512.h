/*
 * The kernels of heddle_utf8_code.c with AVX-512. The parts at both ends are read and written under masks; memory
 * that a mask excludes is not touched.
 */
#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")))

/* The n lowest bits, of at most 63. */
ALWAYS uint64_t lowest(int64_t n)
{
    return ((uint64_t)1 << n) - 1;
}

/* The mask of the bytes that begin a character. */
TARGET ALWAYS uint64_t begins_avx512(__m512i v)
{
    return _mm512_cmpgt_epi8_mask(v, _mm512_set1_epi8(-65));
}

TARGET ALWAYS uint64_t at_least_avx512(__m512i v, uint8_t byte)
{
    return _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8((char)byte));
}

TARGET ALWAYS int64_t count_avx512(const uint8_t *p, int64_t length, int twice)
{
    int64_t n = 0, at = 0;
    for (; at + 64 <= length; at += 64) {
        __m512i here = _mm512_loadu_si512(p + at);
        n += __builtin_popcountll(begins_avx512(here));
        if (twice) n += __builtin_popcountll(at_least_avx512(here, 0xf0));
    }
    if (at < length) {
        uint64_t there = lowest(length - at);
        __m512i here = _mm512_maskz_loadu_epi8(there, p + at);
        n += __builtin_popcountll(begins_avx512(here) & there);
        if (twice) n += __builtin_popcountll(at_least_avx512(here, 0xf0));
    }
    return n;
}

TARGET static int64_t characters_avx512(const uint8_t *p, int64_t length)
{
    return count_avx512(p, length, 0);
}

TARGET static int64_t units_avx512(const uint8_t *p, int64_t length)
{
    return count_avx512(p, length, 1);
}

TARGET static int64_t bytes_avx512(const uint16_t *array, int64_t from, int64_t to)
{
    int64_t n = to - from, at = from;
    while (at < to) {
        uint32_t there = to - at < 32 ? (uint32_t)lowest(to - at) : UINT32_MAX;
        __m512i here = _mm512_maskz_loadu_epi16(there, array + at);
        n += __builtin_popcount(_mm512_cmpgt_epu16_mask(here, _mm512_set1_epi16(0x7f)));
        n += __builtin_popcount(_mm512_cmpgt_epu16_mask(here, _mm512_set1_epi16(0x7ff)));
        n -= __builtin_popcount(_mm512_cmpeq_epi16_mask(_mm512_and_si512(here, _mm512_set1_epi16((short)0xf800)),
                                                        _mm512_set1_epi16((short)0xd800)));
        at += 32;
    }
    return n;
}

/* Writes the units that the mask selects; returns where they end. */
TARGET ALWAYS int64_t emit_avx512(__m512i units, uint32_t kept, uint16_t *array, int64_t at, int64_t end)
{
    __m512i together = _mm512_maskz_compress_epi16(kept, units);
    int64_t n = __builtin_popcount(kept), room = end - at;
    if (room >= 32) {
        _mm512_storeu_si512(array + at, together);
        return at + n;
    }
    if (n > room) n = room;
    _mm512_mask_storeu_epi16(array + at, (uint32_t)lowest(n), together);
    return at + n;
}

/* The units of bytes that are taken for the last ones of their characters, with the two bytes before each. */
TARGET ALWAYS __m512i sum_avx512(__m256i here, __m256i one, __m256i two)
{
    return _mm512_ternarylogic_epi32(_mm512_cvtepu8_epi16(here), _mm512_slli_epi16(_mm512_cvtepu8_epi16(one), 6),
                                     _mm512_slli_epi16(_mm512_cvtepu8_epi16(two), 12), 0xfe);
}

/* Replaces the units at the third and fourth bytes of characters of four. */
TARGET ALWAYS __m512i pairs_avx512(__m512i sum, uint32_t third, uint32_t fourth)
{
    __m512i high = _mm512_mask_add_epi16(sum, third, _mm512_srli_epi16(sum, 4), _mm512_set1_epi16((short)0xd7c0));
    __m512i low = _mm512_ternarylogic_epi32(sum, _mm512_set1_epi16(0x3ff), _mm512_set1_epi16((short)0xdc00), 0xea);
    return _mm512_mask_mov_epi16(high, fourth, low);
}

TARGET static int64_t to_utf16_avx512(const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end)
{
    const __m512i first_lead = _mm512_set1_epi8((char)0xc0);
    uint64_t open = 0; /* Is the byte three before the block the first of four? */
    for (int64_t i = 0; i < length; i += 64) {
        uint64_t there = length - i < 64 ? lowest(length - i) : UINT64_MAX;
        __m512i here = _mm512_maskz_loadu_epi8(there, p + i);
        if (!_mm512_movepi8_mask(here)) {
            __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(here));
            __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(here, 1));
            open = 0;
            if (end - at >= 64) {
                _mm512_storeu_si512(array + at, low);
                _mm512_storeu_si512(array + at + 32, high);
                at += __builtin_popcountll(there);
            } else {
                at = emit_avx512(low, (uint32_t)there, array, at, end);
                at = emit_avx512(high, (uint32_t)(there >> 32), array, at, end);
            }
            continue;
        }
        __m512i one = _mm512_maskz_loadu_epi8(there & (i ? UINT64_MAX : ~(uint64_t)1), p + i - 1);
        __m512i two = _mm512_maskz_loadu_epi8(there & (i ? UINT64_MAX : ~(uint64_t)3), p + i - 2);
        uint64_t kept = ~(at_least_avx512(here, 0xc0) | at_least_avx512(one, 0xe0)) & there;
        /* As signed bytes, continuation bytes are the least. */
        uint64_t continues = _mm512_cmplt_epi8_mask(here, first_lead);
        uint64_t both = continues & _mm512_cmplt_epi8_mask(one, first_lead);
        __m512i b0 = _mm512_and_si512(here, _mm512_set1_epi8(0x7f));
        __m512i b1 = _mm512_maskz_mov_epi8(continues, _mm512_and_si512(one, _mm512_set1_epi8(0x3f)));
        __m512i b2 = _mm512_maskz_mov_epi8(both, two);
        __m512i low =
            sum_avx512(_mm512_castsi512_si256(b0), _mm512_castsi512_si256(b1), _mm512_castsi512_si256(b2));
        __m512i high = sum_avx512(_mm512_extracti64x4_epi64(b0, 1), _mm512_extracti64x4_epi64(b1, 1),
                                  _mm512_extracti64x4_epi64(b2, 1));
        uint64_t third = at_least_avx512(two, 0xf0), fourth = third << 1 | open;
        if (third | fourth) {
            low = pairs_avx512(low, (uint32_t)third, (uint32_t)fourth);
            high = pairs_avx512(high, (uint32_t)(third >> 32), (uint32_t)(fourth >> 32));
        }
        open = third >> 63;
        at = emit_avx512(low, (uint32_t)kept, array, at, end);
        at = emit_avx512(high, (uint32_t)(kept >> 32), array, at, end);
    }
    return at;
}

/* Sixteen units in lanes of four bytes, after the units before each. */
TARGET ALWAYS __m512i spell_avx512(__m512i unit, __m512i before, int surrogates)
{
    const __m512i six = _mm512_set1_epi32(0x3f), continues = _mm512_set1_epi32(0x80);
    /* (a & b) | c, and a | b | c. */
    enum { AND_OR = 0xea, OR_OR = 0xfe };
    __m512i last = _mm512_ternarylogic_epi32(unit, six, continues, AND_OR);
    __m512i rest = _mm512_srli_epi32(unit, 6);
    __m512i middle = _mm512_ternarylogic_epi32(rest, six, continues, AND_OR);
    __m512i two = _mm512_ternarylogic_epi32(rest, _mm512_set1_epi32(0xc0), _mm512_slli_epi32(last, 8), OR_OR);
    __m512i three = _mm512_ternarylogic_epi32(_mm512_srli_epi32(unit, 12), _mm512_set1_epi32(0xe0),
                                              _mm512_slli_epi32(middle, 8), OR_OR);
    three = _mm512_or_si512(three, _mm512_slli_epi32(last, 16));
    __m512i bytes = _mm512_mask_mov_epi32(unit, _mm512_cmpgt_epi32_mask(unit, _mm512_set1_epi32(0x7f)), two);
    bytes = _mm512_mask_mov_epi32(bytes, _mm512_cmpgt_epi32_mask(unit, _mm512_set1_epi32(0x7ff)), three);
    if (surrogates) {
        __m512i kind = _mm512_and_si512(unit, _mm512_set1_epi32(0xfc00));
        __m512i code = _mm512_add_epi32(_mm512_and_si512(unit, _mm512_set1_epi32(0x3ff)), _mm512_set1_epi32(0x40));
        __m512i first = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(code, 2), six), 8);
        first = _mm512_ternarylogic_epi32(_mm512_srli_epi32(code, 8), first, _mm512_set1_epi32(0x80f0), OR_OR);
        __m512i second = _mm512_slli_epi32(_mm512_and_si512(before, _mm512_set1_epi32(3)), 4);
        second = _mm512_or_si512(second, _mm512_and_si512(rest, _mm512_set1_epi32(0xf)));
        second = _mm512_ternarylogic_epi32(second, continues, _mm512_slli_epi32(last, 8), OR_OR);
        bytes = _mm512_mask_mov_epi32(bytes, _mm512_cmpeq_epi32_mask(kind, _mm512_set1_epi32(0xd800)), first);
        bytes = _mm512_mask_mov_epi32(bytes, _mm512_cmpeq_epi32_mask(kind, _mm512_set1_epi32(0xdc00)), second);
    }
    return bytes;
}

/* The same without units of three bytes, in lanes of two. */
TARGET ALWAYS __m512i spell_short_avx512(__m512i unit, __m512i before, int surrogates)
{
    const __m512i six = _mm512_set1_epi16(0x3f), continues = _mm512_set1_epi16(0x80);
    enum { AND_OR = 0xea, OR_OR = 0xfe };
    __m512i last = _mm512_slli_epi16(_mm512_ternarylogic_epi32(unit, six, continues, AND_OR), 8);
    __m512i rest = _mm512_srli_epi16(unit, 6);
    __m512i two = _mm512_ternarylogic_epi32(rest, _mm512_set1_epi16(0xc0), last, OR_OR);
    __m512i bytes = _mm512_mask_mov_epi16(unit, _mm512_cmpgt_epu16_mask(unit, _mm512_set1_epi16(0x7f)), two);
    if (surrogates) {
        __m512i kind = _mm512_and_si512(unit, _mm512_set1_epi16((short)0xfc00));
        __m512i code = _mm512_add_epi16(_mm512_and_si512(unit, _mm512_set1_epi16(0x3ff)), _mm512_set1_epi16(0x40));
        __m512i first = _mm512_slli_epi16(_mm512_and_si512(_mm512_srli_epi16(code, 2), six), 8);
        first = _mm512_ternarylogic_epi32(_mm512_srli_epi16(code, 8), first, _mm512_set1_epi16((short)0x80f0), OR_OR);
        __m512i second = _mm512_slli_epi16(_mm512_and_si512(before, _mm512_set1_epi16(3)), 4);
        second = _mm512_or_si512(second, _mm512_and_si512(rest, _mm512_set1_epi16(0xf)));
        second = _mm512_ternarylogic_epi32(second, continues, last, OR_OR);
        bytes = _mm512_mask_mov_epi16(bytes, _mm512_cmpeq_epi16_mask(kind, _mm512_set1_epi16((short)0xd800)), first);
        bytes = _mm512_mask_mov_epi16(bytes, _mm512_cmpeq_epi16_mask(kind, _mm512_set1_epi16((short)0xdc00)), second);
    }
    return bytes;
}

/*
 * Writes the used bytes of this many bytes of lanes and returns where they end. The mask selects the lanes' first
 * bytes. The other bytes of a lane are used if they are above 7f.
 */
TARGET ALWAYS int64_t join_avx512(__m512i bytes, uint64_t firsts, int64_t size, uint8_t *p, int64_t out, int64_t room)
{
    uint64_t kept = _mm512_movepi8_mask(bytes) | firsts;
    if (size < 64) kept &= lowest(size < 0 ? 0 : size);
    __m512i together = _mm512_maskz_compress_epi8(kept, bytes);
    int64_t n = __builtin_popcountll(kept), left = room - out;
    if (left >= 64) {
        _mm512_storeu_si512(p + out, together);
        return out + n;
    }
    if (n > left) n = left;
    _mm512_mask_storeu_epi8(p + out, lowest(n), together);
    return out + n;
}

/* Writes ASCII, 64 units at a time, up to the first unit beyond; returns how many. */
TARGET ALWAYS int64_t narrow_avx512(const uint16_t *array, int64_t n, uint8_t *p)
{
    static const uint8_t evens[64] = {
        0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22,  24,  26,  28,  30,  32,  34,  36,  38,  40,  42,
        44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64, 66,  68,  70,  72,  74,  76,  78,  80,  82,  84,  86,
        88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126};
    const __m512i even = _mm512_loadu_si512(evens);
    int64_t at = 0;
    for (; at + 64 <= n; at += 64) {
        __m512i a = _mm512_loadu_si512(array + at), b = _mm512_loadu_si512(array + at + 32);
        if (_mm512_test_epi16_mask(_mm512_or_si512(a, b), _mm512_set1_epi16((short)0xff80))) break;
        _mm512_storeu_si512(p + at, _mm512_permutex2var_epi8(a, even, b));
    }
    return at;
}

TARGET static int64_t ascii_avx512(const uint16_t *array, int64_t from, int64_t to, uint8_t *p)
{
    int64_t at = from + narrow_avx512(array + from, to - from, p);
    return at + ascii_plain(array, at, to, p + (at - from)) - from;
}

TARGET static int64_t to_utf8_avx512(const uint16_t *array, int64_t from, int64_t to, uint8_t *p, int64_t room)
{
    int64_t out = 0;
    for (int64_t at = from; at < to; at += 32) {
        uint32_t there = to - at < 32 ? (uint32_t)lowest(to - at) : UINT32_MAX;
        __m512i here = _mm512_maskz_loadu_epi16(there, array + at);
        if (!_mm512_test_epi16_mask(here, _mm512_set1_epi16((short)0xff80))) {
            int64_t more = to - at < room - out ? to - at : room - out;
            more = more < 64 ? 0 : narrow_avx512(array + at, more, p + out);
            if (more) {
                out += more;
                at += more - 32;
                continue;
            }
            int64_t n = __builtin_popcount(there);
            if (n > room - out) n = room - out;
            _mm256_mask_storeu_epi8(p + out, (uint32_t)lowest(n), _mm512_cvtepi16_epi8(here));
            out += n;
            continue;
        }
        __m512i kind = _mm512_and_si512(here, _mm512_set1_epi16((short)0xf800));
        uint32_t surrogates = _mm512_cmpeq_epi16_mask(kind, _mm512_set1_epi16((short)0xd800));
        uint32_t longer = _mm512_test_epi16_mask(here, _mm512_set1_epi16((short)0xf800));
        __m512i before = here;
        if (surrogates) before = _mm512_maskz_loadu_epi16(at > from ? there : there & ~1u, array + at - 1);
        if (surrogates == longer) {
            __m512i bytes = surrogates ? spell_short_avx512(here, before, 1) : spell_short_avx512(here, before, 0);
            out = join_avx512(bytes, 0x5555555555555555u, 2 * (to - at), p, out, room);
            continue;
        }
        __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(here));
        __m512i second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(here, 1));
        if (surrogates & 0xffff)
            first = spell_avx512(first, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(before)), 1);
        else
            first = spell_avx512(first, first, 0);
        if (surrogates >> 16)
            second = spell_avx512(second, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(before, 1)), 1);
        else
            second = spell_avx512(second, second, 0);
        out = join_avx512(first, 0x1111111111111111u, 4 * (to - at), p, out, room);
        out = join_avx512(second, 0x1111111111111111u, 4 * (to - at - 16), p, out, room);
    }
    return out;
}
