/*
 * Text like a web server's log, the same in every run.
 *
 *   logtext [megabytes N] [every N] [times N]
 *
 * So many megabytes (of 10^6 bytes, the last line whole), in which one line in so many has FIND ME in it,
 * and that so many times over.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "common.h"

#define LONGEST 512

static uint64_t state = 88172645463325252u;

static uint32_t any(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) * below >> 32);
}

static const char *const folders[] = {"images", "css", "js", "articles", "downloads", "api/v2/items", "feeds", "fonts"};
static const char *const agents[] = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2) Mobile/15E148 Safari/604.1",
    "curl/7.88.1",
    "Mozilla/5.0 (compatible; Findbot/2.1)",
    "Go-http-client/1.1",
};

static char *number(char *at, uint32_t value)
{
    char digits[10];
    int n = 0;
    do
        digits[n++] = '0' + value % 10;
    while (value /= 10);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static char *two(char *at, uint32_t value)
{
    *at++ = '0' + value / 10;
    *at++ = '0' + value % 10;
    return at;
}

static char *line(char *at, uint64_t count, int wanted)
{
    for (int i = 0; i < 4; i++) {
        at = number(at, 1 + any(254));
        *at++ = i < 3 ? '.' : ' ';
    }
    uint32_t second = count / 100;
    at = stpcpy(at, "- - [");
    at = two(at, 1 + second / 86400 % 28);
    at = stpcpy(at, "/Mar/2026:");
    at = two(at, second / 3600 % 24);
    *at++ = ':';
    at = two(at, second / 60 % 60);
    *at++ = ':';
    at = two(at, second % 60);
    at = stpcpy(at, any(8) ? " +0000] \"GET /" : " +0000] \"POST /");
    at = stpcpy(at, folders[any(8)]);
    *at++ = '/';
    at = number(at, any(100000));
    if (wanted)
        at = stpcpy(at, "?q=FIND ME");
    at = stpcpy(at, any(16) ? " HTTP/1.1\" 200 " : " HTTP/1.1\" 404 ");
    at = number(at, any(100000));
    if (any(4)) {
        at = stpcpy(at, " \"-\" \"");
        at = stpcpy(at, agents[any(5)]);
        *at++ = '"';
    }
    *at++ = '\n';
    return at;
}

int main(int argc, char **argv)
{
    long megabytes = 1, every = 100000, times = 1;
    parse_options(argc, argv, (const struct option_number[]){
        {"megabytes", &megabytes, 1, 100000}, {"every", &every, 1, 1000000000}, {"times", &times, 1, 1000000000}, {NULL, NULL, 0, 0}});
    size_t size = megabytes * 1000000;
    char *text = malloc(size + LONGEST), *end = text;
    if (!text)
        die("malloc");
    for (uint64_t count = 1; end < text + size; count++)
        end = line(end, count, count % every == 0);
    for (long i = 0; i < times; i++)
        for (const char *at = text; at < end;) {
            size_t left = end - at;
            ssize_t written = write(STDOUT_FILENO, at, left < (1 << 20) ? left : 1 << 20);
            if (written < 0)
                die("write");
            at += written;
        }
    return 0;
}
