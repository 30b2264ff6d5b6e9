/*
 * Runs the checks in turn for some seconds.
 *
 *   kernels SECONDS [SEED [ROUND]]
 *
 * SEED: a number, else the time. ROUND: that round alone.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "heddle_cpu.h"

void __sanitizer_set_death_callback(void (*callback)(void));

static uint64_t seed, state;
static int64_t round_number;
static const char *now_checking = "";

static void tell(void)
{
    fprintf(stderr, "check-sanitize: %s: seed %llu, round %lld; replay with HEDDLE_SANITIZE_SEED=%llu HEDDLE_SANITIZE_ROUND=%lld\n",
            now_checking, (unsigned long long)seed, (long long)round_number, (unsigned long long)seed, (long long)round_number);
}

void failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
    abort();
}

/* SplitMix64. */
uint64_t any(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t below(int64_t n)
{
    return n > 0 ? (int64_t)(any() % (uint64_t)n) : 0;
}

int chance(int one_in)
{
    return below(one_in) == 0;
}

static uint8_t *places[PLACES];
static struct { uint8_t *at; int64_t size; int at_end; } used[PLACES];
enum { CANARY = 64 };

static void make_places(void)
{
    long page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < PLACES; i++) {
        uint8_t *p = mmap(0, (size_t)(MOST + 2 * page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + page, MOST, PROT_READ | PROT_WRITE)) {
            perror("check-sanitize: no memory");
            exit(2);
        }
        places[i] = p + page;
    }
}

uint8_t *room(enum place place, int64_t size, int64_t aligned)
{
    CHECK(size >= 0 && size + CANARY + aligned <= MOST);
    int at_end = chance(2);
    int64_t from = at_end ? (MOST - size) / aligned * aligned : 0;
    uint8_t *p = places[place] + from;
    used[place].at = p;
    used[place].size = size;
    used[place].at_end = at_end;
    memset(at_end ? p - CANARY : p + size, 0xa5, CANARY);
    memset(p, 0x5a, (size_t)size);
    return p;
}

uint8_t *holding(enum place place, const void *bytes, int64_t size, int64_t aligned)
{
    uint8_t *p = room(place, size, aligned);
    /* As an empty byte string has it. */
    if (size == 0) return chance(2) ? NULL : p;
    memcpy(p, bytes, (size_t)size);
    return p;
}

void intact(enum place place)
{
    const uint8_t *p = used[place].at_end ? used[place].at - CANARY : used[place].at + used[place].size;
    for (int i = 0; i < CANARY; i++) CHECK(p[i] == 0xa5);
}

int64_t some_length(void)
{
    switch (below(16)) {
    case 0: return below(4);
    case 1: return below(4096);
    case 2: return chance(4) ? 32768 - 70 + below(140) : below(1000);
    case 3: return chance(16) ? below(MOST_TEXT - 4096) : below(64);
    default: return below(160);
    }
}

void random_bytes(struct text *text)
{
    text->length = some_length();
    int high = (int)below(3), low = (int)below(2);
    for (int64_t i = 0; i < text->length; i++) {
        uint8_t byte = (uint8_t)any();
        if (high == 0) byte &= 0x7f;
        if (high == 1) byte |= 0x80;
        text->bytes[i] = low && byte < 0x20 ? (uint8_t)(byte | 0x40) : byte;
    }
}

static int64_t put_utf8(uint8_t *out, uint32_t code)
{
    if (code < 0x80) return out[0] = (uint8_t)code, 1;
    if (code < 0x800) return out[0] = (uint8_t)(0xc0 | code >> 6), out[1] = (uint8_t)(0x80 | (code & 63)), 2;
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12), out[1] = (uint8_t)(0x80 | (code >> 6 & 63));
        return out[2] = (uint8_t)(0x80 | (code & 63)), 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18), out[1] = (uint8_t)(0x80 | (code >> 12 & 63));
    return out[2] = (uint8_t)(0x80 | (code >> 6 & 63)), out[3] = (uint8_t)(0x80 | (code & 63)), 4;
}

static uint32_t any_character(int widest)
{
    uint32_t code;
    switch (below(widest)) {
    case 0: code = (uint32_t)(0x20 + below(0x5f)); break;
    case 1: code = (uint32_t)(chance(4) ? below(0x80) : 0x80 + below(0x780)); break;
    case 2: code = (uint32_t)(0x800 + below(0xf800)); break;
    default: code = (uint32_t)(0x10000 + below(0x100000)); break;
    }
    return code >= 0xd800 && code < 0xe000 ? 0x3042 : code;
}

void random_utf8(struct text *text)
{
    int64_t length = some_length();
    int widest = 1 + (int)below(4), same = chance(3);
    text->length = 0;
    while (text->length < length)
        text->length += put_utf8(text->bytes + text->length, same && widest > 1 ? any_character(4) : any_character(widest));
}

static void add(struct text *text, const char *bytes)
{
    size_t n = strlen(bytes);
    if (text->length + (int64_t)n > MOST_TEXT - 16) return;
    memcpy(text->bytes + text->length, bytes, n);
    text->length += (int64_t)n;
}

static void add_space(struct text *text)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t", "\r\n", "        ", "                                  "};
    add(text, spaces[below(9)]);
}

static void add_string(struct text *text)
{
    static const char *const escapes[] = {"\\n", "\\\"", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\/", "\\u0000"};
    add(text, "\"");
    int64_t n = chance(8) ? below(300) : below(12);
    for (int64_t i = 0; i < n && text->length < MOST_TEXT - 64; i++) {
        if (chance(9)) {
            add(text, escapes[below(7)]);
            continue;
        }
        uint32_t code = any_character(1 + (int)below(4));
        if (code < 0x20 || code == '"' || code == '\\' || code == 0x7f) code = 'x';
        text->length += put_utf8(text->bytes + text->length, code);
    }
    add(text, "\"");
}

static void add_number(struct text *text)
{
    char digits[40];
    int n = (int)below(chance(8) ? 39 : 6), i = 0;
    if (chance(3)) add(text, "-");
    if (n == 0) add(text, "0");
    for (; i < n; i++) digits[i] = (char)('0' + (i ? below(10) : 1 + below(9)));
    digits[i] = 0;
    add(text, digits);
    if (chance(3)) {
        add(text, ".");
        for (i = 0; i <= n; i++) digits[i] = (char)('0' + below(10));
        digits[i < 39 ? i : 39] = 0;
        add(text, digits);
    }
    if (chance(4)) {
        static const char *const powers[] = {"e1", "E+10", "e-3", "e308", "E-400", "e0", "e99999999999999999999"};
        add(text, powers[below(7)]);
    }
}

static void add_value(struct text *text, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    int64_t n = chance(4) ? 0 : below(5);
    if (text->length > MOST_TEXT - 4096) depth = 0;
    switch (depth > 0 ? below(6) : below(4)) {
    case 0: add(text, words[below(3)]); return;
    case 1: add_string(text); return;
    case 2: case 3: add_number(text); return;
    case 4:
        add(text, "[");
        for (int64_t i = 0; i < n; i++) {
            if (i) add(text, ",");
            add_space(text);
            add_value(text, depth - 1);
            add_space(text);
        }
        add(text, "]");
        return;
    default:
        add(text, "{");
        for (int64_t i = 0; i < n; i++) {
            if (i) add(text, ",");
            add_space(text);
            add_string(text);
            add_space(text);
            add(text, ":");
            add_space(text);
            add_value(text, depth - 1);
        }
        add(text, "}");
    }
}

void random_json(struct text *text)
{
    int64_t deep = chance(20) ? below(300) : 0;
    text->length = 0;
    add_space(text);
    for (int64_t i = 0; i < deep; i++) add(text, "[");
    add_value(text, (int)below(8));
    for (int64_t i = 0; i < deep; i++) add(text, "]");
    add_space(text);
}

void random_lines(struct text *text)
{
    /* Few letters, so that needles occur, almost occur, and are periodic. */
    text->length = some_length();
    int64_t letters = 1 + below(4);
    int lines = 1 + (int)below(100);
    for (int64_t i = 0; i < text->length; i++)
        text->bytes[i] = (uint8_t)(chance(lines) ? '\n' : (chance(8) ? 'A' : 'a') + below(letters));
}

void mutate(struct text *text)
{
    static const uint8_t sharp[] = {'"', '\\', '[', ']', '{', '}', ',', ':', 0, 0x1f, 0x80, 0xbf, 0xc0, 0xc1, 0xe0, 0xed, 0xf0, 0xf4, 0xf5, 0xff, '\n', '0', '-', 'e', '.'};
    for (int64_t n = 1 + below(4); n > 0 && text->length > 0; n--) {
        int64_t at = below(text->length), count = below(chance(4) ? 100 : 4);
        switch (below(6)) {
        case 0: text->bytes[at] = (uint8_t)any(); break;
        case 1: text->bytes[at] = sharp[below((int64_t)sizeof sharp)]; break;
        case 2: text->bytes[at] ^= (uint8_t)(1u << below(8)); break;
        case 3: text->length = at; break;
        case 4:
            if (count > text->length - at) count = text->length - at;
            memmove(text->bytes + at, text->bytes + at + count, (size_t)(text->length - at - count));
            text->length -= count;
            break;
        default:
            if (count > text->length - at) count = text->length - at;
            if (text->length + count > MOST_TEXT) break;
            memmove(text->bytes + at + count, text->bytes + at, (size_t)(text->length - at));
            text->length += count;
        }
    }
}

void any_text(struct text *text)
{
    switch (below(4)) {
    case 0: random_bytes(text); return;
    case 1: random_utf8(text); break;
    case 2: random_json(text); break;
    default: random_lines(text);
    }
    if (chance(2)) mutate(text);
}

static const struct { const char *name; void (*check)(void); } checks[] = {
    {"UTF-8", check_utf8}, {"reading JSON", check_json_read}, {"checking JSON", check_json_check},
    {"writing JSON", check_json_write}, {"hashes", check_hash}, {"memory", check_memory},
    {"search", check_search}, {"names and times", check_walk}, {"regular expressions", check_regex},
    {"masks", check_mask}, {"compression", check_deflate}, {"HTTP/2", check_h2},
};
enum { CHECKS = sizeof checks / sizeof *checks };

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void one_round(int64_t n)
{
    round_number = n;
    state = seed ^ ((uint64_t)n * 0xd1342543de82ef95u);
    now_checking = checks[n % CHECKS].name;
    checks[n % CHECKS].check();
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    seed = argc > 2 && argv[2][0] ? strtoull(argv[2], 0, 10) : (uint64_t)time(0);
    setlocale(LC_ALL, "C.UTF-8");
    __sanitizer_set_death_callback(tell);
    make_places();
    if (argc > 3 && argv[3][0]) {
        one_round(strtoll(argv[3], 0, 10));
        return 0;
    }
    printf("check-sanitize: %.0f seconds, level %d of the processor, seed %llu\n", seconds, heddle_cpu_best(),
           (unsigned long long)seed);
    fflush(stdout);
    double end = seconds_now() + seconds;
    int64_t n = 0;
    for (; seconds_now() < end; n++) one_round(n);
    printf("check-sanitize: ok, %lld rounds\n", (long long)n);
    return 0;
}
