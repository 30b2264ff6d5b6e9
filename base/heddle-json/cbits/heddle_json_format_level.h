/* Layout and place, included once for each level; see heddle_json_format.c. */

/* Bit masks over 64 bytes: newlines, and bytes that continue a character. */
INLINE uint64_t NAME(newlines)(const uint8_t *p)
{
#if LEVEL == 0
    uint64_t mask = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t w = load64(p + i) ^ ONES * '\n', low = ONES * 0x7f;
        mask |= (uint64_t)gather(~(((w & low) + low) | w | low)) << i;
    }
    return mask;
#elif LEVEL == 3
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8('\n'));
#else
    uint64_t mask = 0;
    for (int i = 0; i < 64; i += 16)
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(p + i)), _mm_set1_epi8('\n'))) << i;
    return mask;
#endif
}

INLINE uint64_t NAME(continuing)(const uint8_t *p)
{
#if LEVEL == 0
    uint64_t mask = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t w = load64(p + i);
        mask |= (uint64_t)gather(w & ~(w << 1) & HIGHS) << i;
    }
    return mask;
#elif LEVEL == 3
    return _mm512_cmplt_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(-64));
#else
    uint64_t mask = 0;
    for (int i = 0; i < 64; i += 16)
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpgt_epi8(_mm_set1_epi8(-64), _mm_loadu_si128((const __m128i *)(p + i)))) << i;
    return mask;
#endif
}

#if LEVEL == 0
#define COUNT(mask) count_bits(mask)
#else
#define COUNT(mask) ((int64_t)_mm_popcnt_u64(mask))
#endif

TARGET static void NAME(place)(int64_t *place, const uint8_t *p, int64_t length)
{
    const uint8_t *end = p + length;
    int64_t lines = 0, characters = place[1];
    for (; end - p >= 64; p += 64) {
        uint64_t ends = NAME(newlines)(p), begins = ~NAME(continuing)(p);
        if (ends) {
            int last = 63 - __builtin_clzll(ends);
            lines += COUNT(ends);
            characters = last == 63 ? 0 : COUNT(begins >> (last + 1));
        } else
            characters += COUNT(begins);
    }
    for (; p < end; p++) {
        if (*p == '\n') {
            lines++;
            characters = 0;
        } else
            characters += (*p & 0xc0) != 0x80;
    }
    place[0] += lines;
    place[1] = characters;
}

#undef COUNT

#if LEVEL >= 2

/*
 * Minifies whole blocks of 64 bytes: which bytes are in strings follows from the quotes before them. For lines, it
 * stops before a block in which a value might end.
 */
TARGET static int64_t NAME(minify_blocks)(struct heddle_json_format *format, const uint8_t *start, int64_t length,
                                          uint8_t *out, int64_t room)
{
    const uint64_t even = 0x5555555555555555ull;
    const __m128i spaces = _mm_setr_epi8(0x20, 0, 0, 0, 0, 0, 0, 0, 0, 9, 10, 0, 0, 13, 0, 0);
    const uint8_t *p = start, *const end = start + length;
    uint8_t *o = out, *const out_end = out + room;
    const int lines = format->layout == HEDDLE_JSON_LINES;
    uint64_t escaped_first = format->state == ESCAPED, string_first = format->state == BETWEEN ? 0 : ~0ull;
    for (; end - p >= 64 && out_end - o >= 64; p += 64) {
        uint64_t quotes, backslashes, white;
#if LEVEL == 3
        __m512i v = _mm512_loadu_si512(p);
        quotes = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"'));
        backslashes = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));
        white = _mm512_cmpeq_epi8_mask(v, _mm512_shuffle_epi8(_mm512_broadcast_i32x4(spaces), v));
#else
        __m256i v = _mm256_loadu_si256((const __m256i *)p), w = _mm256_loadu_si256((const __m256i *)(p + 32));
        __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'), table = _mm256_broadcastsi128_si256(spaces);
        quotes = MASKS(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(w, quote));
        backslashes = MASKS(_mm256_cmpeq_epi8(v, backslash), _mm256_cmpeq_epi8(w, backslash));
        white = MASKS(_mm256_cmpeq_epi8(v, _mm256_shuffle_epi8(table, v)), _mm256_cmpeq_epi8(w, _mm256_shuffle_epi8(table, w)));
#endif
        uint64_t escaped = escaped_first, escaped_next = 0;
        if (backslashes) {
            /* A run of an odd number of backslashes escapes the byte after it: an addition carries along a run. */
            backslashes &= ~escaped_first;
            uint64_t behind = backslashes << 1 | escaped_first, runs;
            escaped_next = __builtin_add_overflow(backslashes & ~even & ~behind, backslashes, &runs);
            escaped = (even ^ (runs << 1)) & behind;
        }
        uint64_t strings = quotes & ~escaped;
        for (int shift = 1; shift < 64; shift *= 2) strings ^= strings << shift;
        strings ^= string_first;
        if (lines) {
            uint64_t closed, opened;
            /* Brackets and braces differ in a bit that is set in braces. */
#if LEVEL == 3
            __m512i lower = _mm512_or_si512(v, _mm512_set1_epi8(0x20));
            closed = _mm512_cmpeq_epi8_mask(lower, _mm512_set1_epi8('}')) & ~strings;
            opened = _mm512_cmpeq_epi8_mask(lower, _mm512_set1_epi8('{')) & ~strings;
#else
            __m256i bit = _mm256_set1_epi8(0x20), open = _mm256_set1_epi8('{'), close = _mm256_set1_epi8('}');
            __m256i v_lower = _mm256_or_si256(v, bit), w_lower = _mm256_or_si256(w, bit);
            closed = MASKS(_mm256_cmpeq_epi8(v_lower, close), _mm256_cmpeq_epi8(w_lower, close)) & ~strings;
            opened = MASKS(_mm256_cmpeq_epi8(v_lower, open), _mm256_cmpeq_epi8(w_lower, open)) & ~strings;
#endif
            int64_t closings = (int64_t)_mm_popcnt_u64(closed);
            if (format->depth <= closings) break;
            format->depth += (int64_t)_mm_popcnt_u64(opened) - closings;
        }
        escaped_first = escaped_next;
        string_first = (uint64_t)((int64_t)strings >> 63);
        uint64_t kept = ~white | strings;
#if LEVEL == 3
        _mm512_storeu_si512(o, _mm512_maskz_compress_epi8(kept, v));
        o += _mm_popcnt_u64(kept);
#else
        if (kept == ~0ull) {
            _mm256_storeu_si256((__m256i *)o, v);
            _mm256_storeu_si256((__m256i *)(o + 32), w);
            o += 64;
            continue;
        }
        for (int i = 0; i < 64; i += 8) {
            uint64_t word = _pext_u64(load64(p + i), _pdep_u64(kept >> i, ONES) * 0xff);
            memcpy(o, &word, 8);
            o += _mm_popcnt_u64(kept >> i & 0xff);
        }
#endif
    }
    format->state = escaped_first ? ESCAPED : string_first ? STRING : BETWEEN;
    format->written += o - out;
    return p - start;
}

#endif

/* When the output is full, the state says how to continue. */
#define PUT(byte)              \
    do {                       \
        if (o == out_end) goto leave; \
        *o++ = (byte);         \
    } while (0)

TARGET static int64_t NAME(format)(struct heddle_json_format *format, const uint8_t *start, int64_t length, uint8_t *out,
                                   int64_t room)
{
    const uint8_t *p = start, *const end = start + length, *q, *most;
    uint8_t *o = out, *const out_end = out + room;
#if LEVEL >= 2
    const uint8_t *block = start;
#endif
    format->written = 0;
    if (format->layout == HEDDLE_JSON_MINIFIED) {
        /* A number that continues in the next piece needs no special care here. */
        if (format->state == SCALAR) format->state = BETWEEN;
#if LEVEL >= 2
        p += NAME(minify_blocks)(format, start, length, out, room);
        o += format->written;
#endif
    }
    for (;;) {
        if (format->newline) {
            PUT('\n');
            format->newline = 0;
        }
        if (format->blanks > 0) {
            int64_t n = format->blanks < out_end - o ? format->blanks : out_end - o;
            memset(o, ' ', (size_t)n);
            o += n;
            format->blanks -= n;
            if (format->blanks > 0) goto leave;
        }
        if (p == end) goto leave;
#if LEVEL >= 2
        /* Below the top level, LINES is the same as MINIFIED. */
        if (format->layout == HEDDLE_JSON_LINES && p >= block && format->depth > 0 && format->state != SCALAR) {
            int64_t before = format->written, took;
            took = NAME(minify_blocks)(format, p, end - p, o, out_end - o);
            o += format->written - before;
            p += took;
            block = p + 64;
            continue;
        }
#endif
        switch (format->state) {
        case STRING:
            most = end - p < out_end - o ? end : p + (out_end - o);
            q = NAME(quote)(p, most);
            o = copy(o, out_end, p, q, end);
            p = q;
            if (p == most) goto leave;
            *o++ = *p;
            if (*p++ == '\\')
                format->state = ESCAPED;
            else
                ended(format);
            break;
        case ESCAPED:
            PUT(*p);
            p++;
            format->state = STRING;
            break;
        case SCALAR:
            while (p < end && !delimits(*p)) {
                PUT(*p);
                p++;
            }
            if (p < end) ended(format);
            break;
        default:
            if (is_space(*p)) {
                p++;
                if (p < end && is_space(*p)) p = NAME(visible)(p, end);
                break;
            }
            if (format->layout == HEDDLE_JSON_INDENTED && !settle(format, *p)) break;
            PUT(*p);
            step(format, *p++);
        }
    }
leave:
    format->written = o - out;
    return p - start;
}

#undef PUT
