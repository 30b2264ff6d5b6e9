/*
 * UTF-8 to UTF-16 and back with vectors of 16 bytes, for heddle_utf8_code.c, which includes this once for each set of
 * instructions.
 */

/* The units of eight bytes that are taken for the last ones of their characters, with the two bytes before each. */
TARGET ALWAYS __m128i NAME(sum)(__m128i zero, __m128i one, __m128i two)
{
    return _mm_or_si128(_mm_or_si128(zero, _mm_slli_epi16(one, 6)), _mm_slli_epi16(two, 12));
}

/* Replaces the units at the third and fourth bytes of characters of four. */
TARGET ALWAYS __m128i NAME(pairs)(__m128i sum, __m128i third, __m128i fourth)
{
    __m128i high = _mm_add_epi16(_mm_srli_epi16(sum, 4), _mm_set1_epi16((short)0xd7c0));
    __m128i low = _mm_or_si128(_mm_and_si128(sum, _mm_set1_epi16(0x3ff)), _mm_set1_epi16((short)0xdc00));
    return _mm_blendv_epi8(_mm_blendv_epi8(sum, high, third), low, fourth);
}

/* Moves the units that the mask selects together. */
TARGET ALWAYS __m128i NAME(keep)(__m128i units, unsigned mask)
{
    __m128i place = _mm_cvtsi64_si128((int64_t)kept_lanes[mask]);
    return _mm_shuffle_epi8(units, _mm_add_epi8(_mm_unpacklo_epi8(place, place), _mm_set1_epi16(0x0100)));
}

TARGET static int64_t NAME(to_utf16)(const uint8_t *p, int64_t length, uint16_t *array, int64_t at, int64_t end)
{
    const __m128i zeros = _mm_setzero_si128(), first_lead = _mm_set1_epi8((char)0xc0);
    int64_t i = 0;
    /* A vector needs the three bytes before it. */
    while (i < 3 && i < length && at < end) {
        int64_t width = width_of(p[i]);
        int64_t next = to_utf16_plain(p + i, width < length - i ? width : length - i, array, at, end);
        /* No room for a pair: nothing after it may be written either. */
        if (next == at) return at;
        at = next;
        i += width;
    }
    while (i + 16 <= length && at + 16 <= end) {
        __m128i here = _mm_loadu_si128((const __m128i *)(p + i));
        if (!_mm_movemask_epi8(here)) {
            _mm_storeu_si128((__m128i *)(array + at), _mm_unpacklo_epi8(here, zeros));
            _mm_storeu_si128((__m128i *)(array + at + 8), _mm_unpackhi_epi8(here, zeros));
            i += 16;
            at += 16;
            continue;
        }
        __m128i one = _mm_loadu_si128((const __m128i *)(p + i - 1));
        __m128i two = _mm_loadu_si128((const __m128i *)(p + i - 2));
        __m128i three = _mm_loadu_si128((const __m128i *)(p + i - 3));
        __m128i lead = _mm_cmpeq_epi8(_mm_max_epu8(here, first_lead), here);
        __m128i more = _mm_cmpeq_epi8(_mm_max_epu8(one, _mm_set1_epi8((char)0xe0)), one);
        unsigned kept = ~(unsigned)_mm_movemask_epi8(_mm_or_si128(lead, more)) & 0xffff;
        /* As signed bytes, continuation bytes are the least. */
        __m128i continues = _mm_cmpgt_epi8(first_lead, here);
        __m128i both = _mm_and_si128(continues, _mm_cmpgt_epi8(first_lead, one));
        __m128i b0 = _mm_and_si128(here, _mm_set1_epi8(0x7f));
        __m128i b1 = _mm_and_si128(_mm_and_si128(one, _mm_set1_epi8(0x3f)), continues);
        __m128i b2 = _mm_and_si128(two, both);
        __m128i low = NAME(sum)(_mm_unpacklo_epi8(b0, zeros), _mm_unpacklo_epi8(b1, zeros), _mm_unpacklo_epi8(b2, zeros));
        __m128i high = NAME(sum)(_mm_unpackhi_epi8(b0, zeros), _mm_unpackhi_epi8(b1, zeros), _mm_unpackhi_epi8(b2, zeros));
        __m128i four = _mm_set1_epi8((char)0xf0);
        __m128i third = _mm_cmpeq_epi8(_mm_max_epu8(two, four), two);
        __m128i fourth = _mm_cmpeq_epi8(_mm_max_epu8(three, four), three);
        if (_mm_movemask_epi8(_mm_or_si128(third, fourth))) {
            low = NAME(pairs)(low, _mm_unpacklo_epi8(third, third), _mm_unpacklo_epi8(fourth, fourth));
            high = NAME(pairs)(high, _mm_unpackhi_epi8(third, third), _mm_unpackhi_epi8(fourth, fourth));
        }
        _mm_storeu_si128((__m128i *)(array + at), NAME(keep)(low, kept & 0xff));
        at += __builtin_popcount(kept & 0xff);
        _mm_storeu_si128((__m128i *)(array + at), NAME(keep)(high, kept >> 8));
        at += __builtin_popcount(kept >> 8);
        i += 16;
    }
    if (i >= length || at >= end) return at;
    /* A character may be incomplete here; one of four bytes has given a unit after three. */
    int64_t start = start_of_open(p, i);
    if (i - start == 3 && p[start] >= 0xf0) at--;
    return to_utf16_plain(p + start, length - start, array, at, end);
}

/* Four units in lanes of four bytes, after the units before each. */
TARGET ALWAYS __m128i NAME(spell)(__m128i unit, __m128i before, int surrogates)
{
    const __m128i six = _mm_set1_epi32(0x3f), continues = _mm_set1_epi32(0x80);
    __m128i last = _mm_or_si128(_mm_and_si128(unit, six), continues);
    __m128i middle = _mm_or_si128(_mm_and_si128(_mm_srli_epi32(unit, 6), six), continues);
    __m128i two = _mm_or_si128(_mm_or_si128(_mm_srli_epi32(unit, 6), _mm_set1_epi32(0xc0)), _mm_slli_epi32(last, 8));
    __m128i three = _mm_or_si128(_mm_or_si128(_mm_srli_epi32(unit, 12), _mm_set1_epi32(0xe0)),
                                 _mm_or_si128(_mm_slli_epi32(middle, 8), _mm_slli_epi32(last, 16)));
    __m128i bytes = _mm_blendv_epi8(unit, two, _mm_cmpgt_epi32(unit, _mm_set1_epi32(0x7f)));
    bytes = _mm_blendv_epi8(bytes, three, _mm_cmpgt_epi32(unit, _mm_set1_epi32(0x7ff)));
    if (surrogates) {
        __m128i kind = _mm_and_si128(unit, _mm_set1_epi32(0xfc00));
        __m128i code = _mm_add_epi32(_mm_and_si128(unit, _mm_set1_epi32(0x3ff)), _mm_set1_epi32(0x40));
        __m128i first = _mm_or_si128(_mm_or_si128(_mm_srli_epi32(code, 8), _mm_set1_epi32(0x80f0)),
                                     _mm_slli_epi32(_mm_and_si128(_mm_srli_epi32(code, 2), six), 8));
        __m128i second = _mm_or_si128(_mm_slli_epi32(_mm_and_si128(before, _mm_set1_epi32(3)), 4),
                                      _mm_and_si128(_mm_srli_epi32(unit, 6), _mm_set1_epi32(0xf)));
        second = _mm_or_si128(_mm_or_si128(second, continues), _mm_slli_epi32(last, 8));
        bytes = _mm_blendv_epi8(bytes, first, _mm_cmpeq_epi32(kind, _mm_set1_epi32(0xd800)));
        bytes = _mm_blendv_epi8(bytes, second, _mm_cmpeq_epi32(kind, _mm_set1_epi32(0xdc00)));
    }
    return bytes;
}

/* Moves the used bytes of four lanes together, writes 16 bytes, and returns how many count. */
TARGET ALWAYS int64_t NAME(join)(__m128i bytes, uint8_t *to)
{
    /* The first byte of a lane is used; the others are used if they are above 7f. */
    unsigned second = (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_slli_epi32(bytes, 16)));
    unsigned third = (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_slli_epi32(bytes, 8)));
    unsigned index = second | third << 4;
    __m128i nibbles = _mm_cvtsi64_si128((int64_t)kept_bytes[index]);
    __m128i place = _mm_unpacklo_epi8(nibbles, _mm_srli_epi16(nibbles, 4));
    _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(bytes, _mm_and_si128(place, _mm_set1_epi8(0x0f))));
    return 4 + __builtin_popcount(index);
}

/* Writes ASCII, 16 units at a time and then one by one; returns how many. */
TARGET static int64_t NAME(ascii)(const uint16_t *array, int64_t from, int64_t to, uint8_t *p)
{
    int64_t at = from;
    for (; at + 16 <= to; at += 16) {
        __m128i first = _mm_loadu_si128((const __m128i *)(array + at));
        __m128i second = _mm_loadu_si128((const __m128i *)(array + at + 8));
        if (!_mm_testz_si128(_mm_or_si128(first, second), _mm_set1_epi16((short)0xff80))) break;
        _mm_storeu_si128((__m128i *)(p + (at - from)), _mm_packus_epi16(first, second));
    }
    return at + ascii_plain(array, at, to, p + (at - from)) - from;
}

/* Converts eight units of one or two bytes, in lanes of two; writes 16 bytes, and returns how many count. */
TARGET ALWAYS int64_t NAME(short_ones)(__m128i unit, __m128i before, int surrogates, uint8_t *to)
{
    const __m128i six = _mm_set1_epi16(0x3f), continues = _mm_set1_epi16(0x80);
    __m128i last = _mm_slli_epi16(_mm_or_si128(_mm_and_si128(unit, six), continues), 8);
    __m128i rest = _mm_srli_epi16(unit, 6);
    __m128i two = _mm_or_si128(_mm_or_si128(rest, _mm_set1_epi16(0xc0)), last);
    __m128i ascii = _mm_cmpeq_epi16(_mm_subs_epu16(unit, _mm_set1_epi16(0x7f)), _mm_setzero_si128());
    __m128i bytes = _mm_blendv_epi8(two, unit, ascii);
    if (surrogates) {
        __m128i kind = _mm_and_si128(unit, _mm_set1_epi16((short)0xfc00));
        __m128i code = _mm_add_epi16(_mm_and_si128(unit, _mm_set1_epi16(0x3ff)), _mm_set1_epi16(0x40));
        __m128i first = _mm_or_si128(_mm_or_si128(_mm_srli_epi16(code, 8), _mm_set1_epi16((short)0x80f0)),
                                     _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(code, 2), six), 8));
        __m128i second = _mm_or_si128(_mm_slli_epi16(_mm_and_si128(before, _mm_set1_epi16(3)), 4),
                                      _mm_and_si128(rest, _mm_set1_epi16(0xf)));
        second = _mm_or_si128(_mm_or_si128(second, continues), last);
        bytes = _mm_blendv_epi8(bytes, first, _mm_cmpeq_epi16(kind, _mm_set1_epi16((short)0xd800)));
        bytes = _mm_blendv_epi8(bytes, second, _mm_cmpeq_epi16(kind, _mm_set1_epi16((short)0xdc00)));
    }
    unsigned index = ~(unsigned)_mm_movemask_epi8(_mm_packs_epi16(ascii, ascii)) & 0xff;
    __m128i nibbles = _mm_cvtsi64_si128((int64_t)kept_seconds[index]);
    __m128i place = _mm_unpacklo_epi8(nibbles, _mm_srli_epi16(nibbles, 4));
    _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(bytes, _mm_and_si128(place, _mm_set1_epi8(0x0f))));
    return 8 + __builtin_popcount(index);
}

TARGET static int64_t NAME(to_utf8)(const uint16_t *array, int64_t from, int64_t to, uint8_t *p, int64_t room)
{
    int64_t at = from < to ? from + 1 : to, out = to_utf8_plain(array, from, from, at, p, 0, room);
    while (at + 16 <= to && out + 40 <= room) {
        __m128i first = _mm_loadu_si128((const __m128i *)(array + at));
        __m128i second = _mm_loadu_si128((const __m128i *)(array + at + 8));
        if (_mm_testz_si128(_mm_or_si128(first, second), _mm_set1_epi16((short)0xff80))) {
            _mm_storeu_si128((__m128i *)(p + out), _mm_packus_epi16(first, second));
            at += 16;
            out += 16;
            continue;
        }
        __m128i before = _mm_loadu_si128((const __m128i *)(array + at - 1));
        __m128i kind = _mm_and_si128(first, _mm_set1_epi16((short)0xf800));
        int surrogates = _mm_movemask_epi8(_mm_cmpeq_epi16(kind, _mm_set1_epi16((short)0xd800)));
        __m128i rest = _mm_subs_epu16(first, _mm_set1_epi16(0x7ff));
        int longer = _mm_movemask_epi8(_mm_cmpeq_epi16(rest, _mm_setzero_si128())) ^ 0xffff;
        if (surrogates == longer) {
            out += surrogates ? NAME(short_ones)(first, before, 1, p + out) : NAME(short_ones)(first, before, 0, p + out);
        } else if (surrogates) {
            out += NAME(join)(NAME(spell)(_mm_cvtepu16_epi32(first), _mm_cvtepu16_epi32(before), 1), p + out);
            out += NAME(join)(NAME(spell)(_mm_cvtepu16_epi32(_mm_srli_si128(first, 8)),
                                          _mm_cvtepu16_epi32(_mm_srli_si128(before, 8)), 1),
                              p + out);
        } else {
            out += NAME(join)(NAME(spell)(_mm_cvtepu16_epi32(first), first, 0), p + out);
            out += NAME(join)(NAME(spell)(_mm_cvtepu16_epi32(_mm_srli_si128(first, 8)), first, 0), p + out);
        }
        at += 8;
    }
    return to_utf8_plain(array, from, at, to, p, out, room);
}
