/*
 * libsimdjson's DOM parser on a document of the folder HEDDLE_DOCUMENTS.
 *
 *   bytes_json_simdjson simdjson-twitter|simdjson-records|simdjson-numbers|minify-twitter|... N
 *
 * Parses, or minifies, it N times. Prints "timed WALL CPU 0 ANSWER", in nanoseconds; the answer is N times the
 * document's bytes.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include <simdjson.h>

static int64_t clock_ns(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

static simdjson::dom::parser parser;

static int64_t passes(const simdjson::padded_string &text, bool minify, int64_t n)
{
    int64_t answer = 0;
    std::unique_ptr<uint8_t[]> out(new uint8_t[text.size() + 64]);
    for (int64_t i = 0; i < n; i++) {
        if (minify) {
            size_t length;
            auto error = simdjson::get_active_implementation()->minify(reinterpret_cast<const uint8_t *>(text.data()), text.size(), out.get(), length);
            if (error) exit(1);
        } else {
            simdjson::dom::element value;
            if (parser.parse(text).get(value)) exit(1);
        }
        answer += int64_t(text.size());
    }
    return answer;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("HEDDLE_DOCUMENTS");
    const char *dash = argc == 3 ? strchr(argv[1], '-') : nullptr;
    int64_t n = argc == 3 ? atoll(argv[2]) : 0;
    bool minify = dash && !strncmp(argv[1], "minify-", 7);
    if (!dash || n < 1 || !folder || !(minify || !strncmp(argv[1], "simdjson-", 9))) {
        fprintf(stderr, "usage: HEDDLE_DOCUMENTS=FOLDER bytes_json_simdjson simdjson-DOCUMENT|minify-DOCUMENT N\n");
        return 2;
    }
    simdjson::padded_string text;
    if (simdjson::padded_string::load(std::string(folder) + "/" + (dash + 1) + ".json").get(text)) {
        fprintf(stderr, "bytes_json_simdjson: cannot read the document\n");
        return 2;
    }
    passes(text, minify, n + 1);
    int64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    int64_t answer = passes(text, minify, n);
    int64_t cpu_after = clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall_after = clock_ns(CLOCK_MONOTONIC);
    printf("timed %ld %ld 0 %ld\n", long(wall_after - wall), long(cpu_after - cpu), long(answer));
    return 0;
}
