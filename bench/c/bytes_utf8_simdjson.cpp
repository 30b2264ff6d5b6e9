/*
 * simdjson's UTF-8 validation, so many passes over a document.
 *
 *   bytes_utf8_simdjson validate-DOCUMENT-SIZE-simdjson N
 *
 * The documents, the sizes and the answer are those of bytes/Utf8.hs. Prints "timed WALL CPU 0 ANSWER", in
 * nanoseconds. Link with -lsimdjson.
 */
#include <simdjson.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>

static void spell(std::string &s, uint32_t c)
{
    auto put = [&](uint32_t byte) { s.push_back(static_cast<char>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xc0 | c >> 6);
        put(0x80 | (c & 63));
    } else if (c < 0x10000) {
        put(0xe0 | c >> 12);
        put(0x80 | (c >> 6 & 63));
        put(0x80 | (c & 63));
    } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 63));
        put(0x80 | (c >> 6 & 63));
        put(0x80 | (c & 63));
    }
}

static uint32_t letter(const std::string &name, uint32_t r)
{
    if (name == "ascii") return 0x20 + r % 95;
    if (name == "cjk") return 0x4e00 + r % 20000;
    uint32_t rest = r / 100, kind = r % 100;
    if (kind < 85) return 0x20 + rest % 95;
    if (kind < 97) return 0xc0 + rest % 0x80;
    return 0x1f600 + rest % 80;
}

static std::string document(const std::string &name, size_t size)
{
    std::string text;
    uint64_t seed = 20261122;
    while (text.size() < size) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        std::string next;
        spell(next, letter(name, static_cast<uint32_t>(seed >> 33)));
        if (next.size() > size - text.size()) next = std::string(size - text.size(), ' ');
        text += next;
    }
    return text;
}

__attribute__((noinline)) static int64_t passes(const std::string &text, int64_t n)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        if (simdjson::validate_utf8(text.data(), text.size())) total += static_cast<int64_t>(text.size());
    return total;
}

static int64_t clock_ns(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    std::string way = argc == 3 ? argv[1] : "";
    int64_t n = argc == 3 ? atoll(argv[2]) : 0;
    size_t bytes = 0;
    std::string name;
    for (const char *kind : {"ascii", "cjk", "mixed"})
        for (auto size : {std::pair<const char *, size_t>{"16", 16}, {"1k", 1000}, {"32k", 32768}, {"1m", 1048576}})
            if (way == std::string("validate-") + kind + "-" + size.first + "-simdjson") {
                name = kind;
                bytes = size.second;
            }
    if (n < 1 || bytes == 0) {
        fprintf(stderr, "usage: bytes_utf8_simdjson validate-ascii|cjk|mixed-16|1k|32k|1m-simdjson N\n");
        return 2;
    }
    std::string text = document(name, bytes);
    volatile int64_t before = passes(text, n + 1);
    (void)before;
    int64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    int64_t answer = passes(text, n);
    int64_t cpu_after = clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall_after = clock_ns(CLOCK_MONOTONIC);
    printf("timed %ld %ld 0 %ld\n", static_cast<long>(wall_after - wall), static_cast<long>(cpu_after - cpu),
           static_cast<long>(answer));
    return 0;
}
