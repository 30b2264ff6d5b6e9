/*
 * Implements heddle_search.h.
 *
 * The needle's two rarest bytes are searched for a vector at a time, at their distance from each other; the
 * needle is compared only where both occur. Comparisons have a budget that grows with the text. When it is
 * spent (the text resembles the needle everywhere), Crochemore and Perrin's Two-Way algorithm continues,
 * which reads each byte a few times at most. Case is folded by OR-ing 0x20 into the text where the needle
 * has a letter: then equal means equal up to case, because only a letter's capital becomes that letter by
 * it.
 */
#define _GNU_SOURCE
#include "heddle_search.h"
#include "heddle_cpu.h"

#include <string.h>

struct heddle_needle {
    int64_t length;
    int64_t next;                       /* Distance to the next one of a set; 0: none. */
    int64_t stride;                     /* Bytes of each of the two arrays after the struct. */
    int64_t at1, at2;                   /* Offsets of the two rare bytes. */
    int64_t critical, period, memory;   /* Two-Way: the left half's length - 1, the shift, what stays known after it. */
    int32_t level;
    uint8_t fold, byte1, byte2, mask1, mask2, newline;
    uint8_t bytes[];                    /* The needle, folded; then what is OR-ed into the text. */
};

/* One search of a text, over all its hits. */
struct search {
    int64_t origin;     /* Where it began. */
    int64_t spent;      /* The steps of its comparisons. */
    int64_t resume;     /* Where to continue after the budget was spent. */
    int tired;
};

enum { NOT_HERE = -1, TIRED = -2 };

/* The steps of a comparison besides one for 8 bytes, and the initial budget. */
enum { COMPARISON = 4, ALLOWANCE = 1024 };

static inline const uint8_t *masks(const struct heddle_needle *needle)
{
    return needle->bytes + needle->stride;
}

static inline uint64_t load(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* The number of equal bytes, in steps of 8; the needle's length if all are equal. */
static inline int64_t agree(const struct heddle_needle *needle, const uint8_t *text)
{
    const uint8_t *bytes = needle->bytes, *mask = masks(needle);
    int64_t length = needle->length, i = 0;
    for (; i + 8 <= length; i += 8)
        if ((load(text + i) | load(mask + i)) != load(bytes + i)) return i;
    if (i == length) return length;
    if (length >= 8) {
        int64_t j = length - 8;
        return (load(text + j) | load(mask + j)) == load(bytes + j) ? length : i;
    }
    for (; i < length; i++)
        if ((text[i] | mask[i]) != bytes[i]) return 0;
    return length;
}

/* Compares at the starts that a mask selects; TIRED when the budget is spent. */
static inline __attribute__((always_inline)) int64_t try_starts(const struct heddle_needle *needle, const uint8_t *text,
                                                                int64_t base, uint32_t mask, struct search *search)
{
    for (; mask; mask &= mask - 1) {
        int64_t at = base + __builtin_ctz(mask), same = agree(needle, text + at);
        if (same == needle->length) return at;
        search->spent += COMPARISON + same / 8;
        if (search->spent > ALLOWANCE + at - search->origin) {
            search->resume = at + 1;
            return TIRED;
        }
    }
    return NOT_HERE;
}

/* Level 0. */

static int64_t find_scalar(const uint8_t *p, int64_t length, uint8_t byte)
{
    const uint8_t *at = length > 0 ? memchr(p, byte, (size_t)length) : 0;
    return at ? at - p : -1;
}

static int64_t find_end_scalar(const uint8_t *p, int64_t length, uint8_t byte)
{
    while (--length >= 0 && p[length] != byte) continue;
    return length < 0 ? -1 : length;
}

static int64_t count_scalar(const uint8_t *p, int64_t length, uint8_t byte)
{
    const uint64_t ones = 0x0101010101010101u, low = 0x7f7f7f7f7f7f7f7fu, pairs = 0x00ff00ff00ff00ffu;
    int64_t total = 0, i = 0;
    while (i + 8 <= length) {
        /* Eight counters in a word, each at most 255 before they are added up. */
        uint64_t counters = 0;
        int64_t words = (length - i) / 8, end = i + (words < 255 ? words : 255) * 8;
        for (; i < end; i += 8) {
            uint64_t other = load(p + i) ^ (byte * ones);
            counters += ~(((other & low) + low) | other | low) >> 7;
        }
        total += (int64_t)((((counters & pairs) + ((counters >> 8) & pairs)) * 0x0001000100010001u) >> 48);
    }
    for (; i < length; i++) total += p[i] == byte;
    return total;
}

static int64_t places_scalar(const uint8_t *p, int64_t length, int64_t from, uint8_t byte, int64_t *out,
                             int64_t capacity)
{
    int64_t used = 0;
    for (int64_t i = from; i < length && used < capacity; i++)
        if (p[i] == byte) out[used++] = i;
    return used;
}

static int64_t starts_scalar(const struct heddle_needle *needle, const uint8_t *text, int64_t last, int64_t at,
                             struct search *search)
{
    const uint8_t *one = text + needle->at1, *two = text + needle->at2;
    for (; at <= last; at++) {
        if (needle->mask1 == 0) {
            int64_t skipped = find_scalar(one + at, last + 1 - at, needle->byte1);
            if (skipped < 0) return NOT_HERE;
            at += skipped;
        } else if ((one[at] | needle->mask1) != needle->byte1)
            continue;
        if ((two[at] | needle->mask2) != needle->byte2) continue;
        int64_t found = try_starts(needle, text, at, 1, search);
        if (found != NOT_HERE) return found;
    }
    return NOT_HERE;
}

#if HEDDLE_X86_KERNELS
#include <immintrin.h>

/* find_scalar for texts shorter than a vector, where a call costs more than the bytes. */
static int64_t find_plain(const uint8_t *p, int64_t length, uint8_t byte)
{
    for (int64_t i = 0; i < length; i++)
        if (p[i] == byte) return i;
    return -1;
}

#define find_smaller_sse2 find_plain
#define find_end_smaller_sse2 find_end_scalar
#define count_smaller_sse2 count_scalar
#define places_smaller_sse2 places_scalar
#define starts_smaller_sse2 starts_scalar

/* Baseline x86-64 has no instruction for this; only rests need it. */
static inline int64_t bits(uint32_t mask)
{
    int64_t n = 0;
    for (; mask; mask &= mask - 1) n++;
    return n;
}

static inline int64_t sum_sse2(__m128i v)
{
    __m128i sums = _mm_sad_epu8(v, _mm_setzero_si128());
    return _mm_cvtsi128_si64(sums) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums));
}

#define WIDTH 16
#define VECTOR __m128i
#define NAME(f) f##_sse2
#define SMALLER(f) f##_smaller_sse2
#define TARGET
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define SPLAT(byte) _mm_set1_epi8((char)(byte))
#define EQUAL _mm_cmpeq_epi8
#define OR _mm_or_si128
#define AND _mm_and_si128
#define MASK(v) ((uint32_t)_mm_movemask_epi8(v))
#define ZERO _mm_setzero_si128()
#define SUBTRACT _mm_sub_epi8
#define SUM sum_sse2
#define POPCOUNT bits
#define TOP(mask) (31 - __builtin_clz(mask))
#include "heddle_search_level.h"

#define AVX2 __attribute__((target("avx2,popcnt,bmi,lzcnt")))

AVX2 static inline int64_t sum_avx2(__m256i v)
{
    __m256i sums = _mm256_sad_epu8(v, _mm256_setzero_si256());
    __m128i both = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si64(both) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both));
}

#define WIDTH 32
#define VECTOR __m256i
#define NAME(f) f##_avx2
#define SMALLER(f) f##_sse2
#define TARGET AVX2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define SPLAT(byte) _mm256_set1_epi8((char)(byte))
#define EQUAL _mm256_cmpeq_epi8
#define OR _mm256_or_si256
#define AND _mm256_and_si256
#define MASK(v) ((uint32_t)_mm256_movemask_epi8(v))
#define ZERO _mm256_setzero_si256()
#define SUBTRACT _mm256_sub_epi8
#define SUM sum_avx2
#define POPCOUNT _mm_popcnt_u32
#define TOP(mask) (31 - __builtin_clz(mask))
#include "heddle_search_level.h"
#endif

struct kernels {
    int64_t (*find)(const uint8_t *, int64_t, uint8_t);
    int64_t (*find_end)(const uint8_t *, int64_t, uint8_t);
    int64_t (*count)(const uint8_t *, int64_t, uint8_t);
    int64_t (*places)(const uint8_t *, int64_t, int64_t, uint8_t, int64_t *, int64_t);
    int64_t (*starts)(const struct heddle_needle *, const uint8_t *, int64_t, int64_t, struct search *);
};

static const struct kernels levels[] = {
    {find_scalar, find_end_scalar, count_scalar, places_scalar, starts_scalar},
#if HEDDLE_X86_KERNELS
    {find_sse2, find_end_sse2, count_sse2, places_sse2, starts_sse2},
    {find_avx2, find_end_avx2, count_avx2, places_avx2, starts_avx2},
#endif
};

int heddle_search_best(void)
{
#if HEDDLE_X86_KERNELS
    return heddle_cpu_best() >= HEDDLE_CPU_AVX2 ? 2 : 1;
#else
    return 0;
#endif
}

int64_t heddle_search_find(int level, const uint8_t *p, int64_t length, uint8_t byte)
{
    return levels[level].find(p, length, byte);
}

int64_t heddle_search_find_end(int level, const uint8_t *p, int64_t length, uint8_t byte)
{
    return levels[level].find_end(p, length, byte);
}

int64_t heddle_search_count(int level, const uint8_t *p, int64_t length, uint8_t byte)
{
    return levels[level].count(p, length, byte);
}

int64_t heddle_search_nth(int level, const uint8_t *p, int64_t length, uint8_t byte, int64_t n)
{
    enum { PIECE = 2048 };
    const struct kernels *k = &levels[level];
    if (n < 1) return -1;
    for (int64_t at = 0; at < length;) {
        int64_t piece = length - at < PIECE ? length - at : PIECE, here = k->count(p + at, piece, byte);
        if (here < n) {
            n -= here;
            at += piece;
            continue;
        }
        for (;; at++) {
            at += k->find(p + at, length - at, byte);
            if (--n == 0) return at;
        }
    }
    return -1;
}

int64_t heddle_search_places(int level, const uint8_t *p, int64_t length, int64_t from, uint8_t byte, int64_t *out,
                            int64_t capacity)
{
    return levels[level].places(p, length, from, byte, out, capacity);
}

/*
 * How common bytes are, 16 for each doubling: a mix of English documentation, source code, translations,
 * logs and some machine code.
 */
static const uint8_t common[256] = {
    213, 142, 127, 117, 120, 115, 108, 109, 127, 154, 212, 100, 100, 149, 120, 133,
    116, 98, 105, 93, 98, 97, 94, 92, 109, 92, 91, 93, 94, 91, 92, 112,
    255, 113, 188, 170, 133, 135, 113, 146, 195, 195, 191, 168, 184, 208, 215, 208,
    215, 213, 209, 193, 198, 196, 194, 182, 183, 184, 199, 167, 153, 165, 153, 146,
    136, 184, 160, 182, 170, 193, 164, 168, 172, 183, 129, 153, 183, 174, 188, 184,
    185, 114, 182, 199, 194, 162, 148, 149, 164, 141, 114, 168, 141, 168, 105, 216,
    170, 225, 200, 217, 218, 237, 202, 202, 205, 227, 162, 190, 217, 206, 226, 226,
    209, 133, 220, 226, 231, 209, 186, 180, 178, 186, 155, 132, 125, 132, 116, 86,
    122, 102, 101, 123, 114, 119, 97, 102, 98, 137, 87, 129, 95, 125, 88, 94,
    102, 87, 90, 89, 100, 100, 94, 90, 91, 98, 91, 94, 95, 92, 90, 95,
    97, 91, 97, 88, 128, 105, 93, 90, 103, 90, 122, 104, 127, 106, 96, 93,
    116, 91, 97, 94, 93, 94, 108, 103, 104, 93, 102, 95, 97, 97, 112, 105,
    117, 95, 101, 124, 110, 106, 96, 105, 99, 91, 87, 84, 86, 85, 87, 84,
    128, 117, 92, 87, 83, 84, 90, 107, 99, 95, 89, 92, 83, 86, 88, 92,
    153, 87, 114, 86, 88, 86, 88, 89, 124, 111, 87, 94, 93, 90, 91, 97,
    95, 85, 90, 88, 87, 86, 97, 90, 98, 87, 91, 90, 92, 94, 107, 154,
};

static int lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static int is_small(int c)
{
    return c >= 'a' && c <= 'z';
}

static int rank(const struct heddle_needle *needle, int64_t i)
{
    int c = needle->bytes[i], rank = common[c];
    if (!masks(needle)[i]) return rank;
    return rank > common[c - 32] ? rank : common[c - 32];
}

/* The needle's largest suffix in one of the two orders, less one, and its period. */
static int64_t largest_suffix(const uint8_t *x, int64_t length, int reversed, int64_t *period)
{
    int64_t best = -1, at = 0, k = 1, p = 1;
    while (at + k < length) {
        uint8_t a = x[at + k], b = x[best + k];
        if (a == b) {
            if (k == p) {
                at += p;
                k = 1;
            } else
                k++;
        } else if ((a < b) != reversed) {
            at += k;
            k = 1;
            p = at - best;
        } else {
            best = at++;
            k = p = 1;
        }
    }
    *period = p;
    return best;
}

int64_t heddle_needle_size(int64_t length)
{
    return (int64_t)sizeof(struct heddle_needle) + 2 * ((length + 7) & -8);
}

void heddle_needle_make(struct heddle_needle *needle, int level, int fold, const uint8_t *bytes, int64_t length,
                        int64_t next)
{
    enum { NEAR = 256 }; /* Both bytes are taken from the beginning, so that a long needle reads one place, not two. */
    memset(needle, 0, (size_t)heddle_needle_size(length));
    needle->length = length;
    needle->next = next;
    needle->stride = (length + 7) & -8;
    needle->level = level;
    needle->fold = fold != 0;
    uint8_t *mask = needle->bytes + needle->stride;
    for (int64_t i = 0; i < length; i++) {
        needle->bytes[i] = (uint8_t)(fold ? lower(bytes[i]) : bytes[i]);
        mask[i] = fold && is_small(needle->bytes[i]) ? 0x20 : 0;
        if (bytes[i] == '\n') needle->newline = 1;
    }
    if (length == 0) return;

    int64_t one = 0, two = 0, least = INT64_MAX, near = length < NEAR ? length : NEAR;
    for (int64_t i = 1; i < near; i++)
        if (rank(needle, i) < rank(needle, one)) one = i;
    for (int64_t i = 0; i < near; i++) {
        /* Another byte is more selective than a second occurrence of the same byte. */
        int64_t value = rank(needle, i) + (needle->bytes[i] == needle->bytes[one] ? 256 : 0);
        if (i == one || value >= least) continue;
        two = i;
        least = value;
    }
    needle->at1 = one;
    needle->at2 = two;
    needle->byte1 = needle->bytes[one];
    needle->mask1 = mask[one];
    needle->byte2 = needle->bytes[two];
    needle->mask2 = mask[two];

    int64_t period, other_period;
    int64_t critical = largest_suffix(needle->bytes, length, 0, &period);
    int64_t other = largest_suffix(needle->bytes, length, 1, &other_period);
    if (other > critical) {
        critical = other;
        period = other_period;
    }
    needle->critical = critical;
    if (memcmp(needle->bytes, needle->bytes + period, (size_t)(critical + 1)) == 0) {
        needle->period = period;
        needle->memory = length - period - 1;
    } else {
        int64_t left = critical + 1, right = length - critical - 1;
        needle->period = (left > right ? left : right) + 1;
        needle->memory = -1;
    }
}

/* Crochemore and Perrin's search: the part left of the critical position is compared last. */
static int64_t two_way(const struct heddle_needle *needle, const uint8_t *text, int64_t last, int64_t at,
                       struct search *search)
{
    const uint8_t *bytes = needle->bytes, *mask = masks(needle);
    const int64_t critical = needle->critical;
    int64_t known = -1;
    while (at <= last) {
        const uint8_t *here = text + at;
        int64_t from = (critical > known ? critical : known) + 1, i = from;
        while (i < needle->length && (here[i] | mask[i]) == bytes[i]) i++;
        search->spent += i - from + 1;
        if (i < needle->length) {
            at += i - critical;
            known = -1;
            continue;
        }
        for (i = critical; i > known && (here[i] | mask[i]) == bytes[i];) i--;
        search->spent += critical - i + 1;
        if (i <= known) return at;
        at += needle->period;
        known = needle->memory;
    }
    return -1;
}

/* The last possible start of the needle. */
static inline int64_t last_start(const struct heddle_needle *needle, int64_t length)
{
    return length - needle->length;
}

/* Searches at the starts from `at` to `last`. */
static int64_t search_on(const struct heddle_needle *needle, const uint8_t *text, int64_t last, int64_t at,
                         struct search *search)
{
    const struct kernels *k = &levels[needle->level];
    if (at > last) return -1;
    if (needle->length == 0) return at;
    if (search->tired) return two_way(needle, text, last, at, search);
    if (needle->length == 1 && !needle->mask1) {
        int64_t found = k->find(text + at, last + 1 - at, needle->byte1);
        return found < 0 ? -1 : at + found;
    }
    int64_t found = k->starts(needle, text, last, at, search);
    if (found != TIRED) return found;
    search->tired = 1;
    return two_way(needle, text, last, search->resume, search);
}

int64_t heddle_needle_find_tired(const struct heddle_needle *needle, const uint8_t *text, int64_t length, int64_t from)
{
    struct search search = {.origin = from, .tired = 1};
    return search_on(needle, text, last_start(needle, length), from, &search);
}

int64_t heddle_needle_work(const struct heddle_needle *needle, const uint8_t *text, int64_t length)
{
    struct search search = {.origin = 0};
    int64_t at = 0, last = last_start(needle, length);
    while ((at = search_on(needle, text, last, at, &search)) >= 0) at += needle->length ? needle->length : 1;
    return search.spent;
}

/* A search for the nearest of several needles. */
struct hunt {
    const struct heddle_needle *needle[HEDDLE_NEEDLES];
    struct search search[HEDDLE_NEEDLES];
    int64_t place[HEDDLE_NEEDLES]; /* The needle's next occurrence, if found; otherwise it does not start before this. */
    int found[HEDDLE_NEEDLES];
    int64_t needles;
};

static const struct heddle_needle *next_of(const struct heddle_needle *needle)
{
    return needle->next ? (const void *)((const uint8_t *)needle + needle->next) : 0;
}

/* In a search within lines, needles that no line can contain are left out. */
static void hunt_begin(struct hunt *hunt, const struct heddle_needle *needle, int64_t from, int within_lines)
{
    int64_t kept = 0;
    for (; needle && kept < HEDDLE_NEEDLES; needle = next_of(needle)) {
        if (within_lines && needle->newline) continue;
        hunt->needle[kept] = needle;
        hunt->search[kept] = (struct search){.origin = from};
        hunt->place[kept] = from;
        hunt->found[kept] = 0;
        kept++;
    }
    hunt->needles = kept;
}

/*
 * The nearest occurrence at or after `at`, or the block's length. The needles advance together, in windows
 * that grow. If each searched for its own next occurrence at once, a caller that takes one line at a time
 * would search the whole block for a rare needle for each line with a common one.
 */
static int64_t hunt_next(struct hunt *hunt, const uint8_t *block, int64_t length, int64_t at)
{
    enum { WINDOW = 2048, WIDEST = 32768 };
    if (hunt->needles == 0) return length;
    if (hunt->needles == 1) {
        int64_t only = search_on(hunt->needle[0], block, last_start(hunt->needle[0], length), at, &hunt->search[0]);
        return only < 0 ? length : only;
    }
    for (int64_t window = WINDOW; at < length; window = window < WIDEST ? 2 * window : WIDEST) {
        int64_t end = length - at < window ? length : at + window, nearest = end;
        for (int64_t i = 0; i < hunt->needles; i++) {
            const struct heddle_needle *needle = hunt->needle[i];
            if (hunt->place[i] < at) {
                hunt->place[i] = at;
                hunt->found[i] = 0;
            }
            if (hunt->place[i] >= nearest) continue;
            if (!hunt->found[i]) {
                int64_t fits = last_start(needle, length), last = nearest - 1 < fits ? nearest - 1 : fits;
                int64_t place = search_on(needle, block, last, hunt->place[i], &hunt->search[i]);
                hunt->found[i] = place >= 0;
                hunt->place[i] = place >= 0 ? place : nearest;
            }
            if (hunt->found[i]) nearest = hunt->place[i];
        }
        if (nearest < end) return nearest;
        at = end;
    }
    return length;
}

/* Is one of the needles empty? It is found everywhere, including the end. */
static int hunts_nothing(const struct hunt *hunt)
{
    for (int64_t i = 0; i < hunt->needles; i++)
        if (hunt->needle[i]->length == 0) return 1;
    return 0;
}

int64_t heddle_needle_find(const struct heddle_needle *needle, const uint8_t *text, int64_t length, int64_t from)
{
    struct hunt hunt;
    hunt_begin(&hunt, needle, from, 0);
    if (hunts_nothing(&hunt)) return from;
    int64_t found = hunt_next(&hunt, text, length, from);
    return found < length ? found : -1;
}

int64_t heddle_needle_count_lines(const struct heddle_needle *needle, const uint8_t *block, int64_t length)
{
    struct hunt hunt;
    const struct kernels *k = &levels[needle->level];
    int64_t lines = 0, at = 0;
    hunt_begin(&hunt, needle, 0, 1);
    if (hunts_nothing(&hunt)) return length > 0 ? k->count(block, length, '\n') + (block[length - 1] != '\n') : 0;
    while (at < length && (at = hunt_next(&hunt, block, length, at)) < length) {
        lines++;
        int64_t rest = k->find(block + at, length - at, '\n');
        if (rest < 0) break;
        at += rest + 1;
    }
    return lines;
}

int64_t heddle_needle_lines(const struct heddle_needle *needle, const uint8_t *block, int64_t length, int64_t from,
                            int numbered, struct heddle_line *out, int64_t capacity)
{
    struct hunt hunt;
    const struct kernels *k = &levels[needle->level];
    int64_t used = 0, at = from;
    hunt_begin(&hunt, needle, from, 1);
    while (used < capacity && at < length) {
        int64_t hit = hunt_next(&hunt, block, length, at);
        if (hit >= length) break;
        int64_t start = at + k->find_end(block + at, hit - at, '\n') + 1;
        int64_t rest = k->find(block + hit, length - hit, '\n'), end = rest < 0 ? length : hit + rest;
        out[used++] = (struct heddle_line){start, end, numbered ? k->count(block + at, start - at, '\n') : 0};
        at = end + 1;
    }
    return used;
}
