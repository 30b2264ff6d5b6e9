/* What the benchmark programs share: options, limits, errors, time. */
#ifndef HEDDLE_BENCH_COMMON_H
#define HEDDLE_BENCH_COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

__attribute__((noreturn, unused)) static void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

/* An option with a number: its name, where it goes, and its bounds. */
struct option_number {
    const char *name;
    long *value;
    long least, most;
};

__attribute__((unused)) static void parse_options(int argc, char **argv, const struct option_number *options)
{
    for (int i = 1; i < argc; i += 2) {
        const struct option_number *option = options;
        while (option->name && strcmp(option->name, argv[i]) != 0)
            option++;
        char *end = NULL;
        long number = 0;
        if (option->name && i + 1 < argc)
            number = strtol(argv[i + 1], &end, 10);
        if (!end || end == argv[i + 1] || *end || number < option->least || number > option->most) {
            fprintf(stderr, "usage: %s", program_invocation_short_name);
            for (option = options; option->name; option++)
                fprintf(stderr, " [%s %ld..%ld]", option->name, option->least, option->most);
            fputc('\n', stderr);
            exit(2);
        }
        *option->value = number;
    }
}

/* As many descriptors as are wanted, or as many as we may have; returns that number. */
__attribute__((unused)) static rlim_t raise_descriptors(rlim_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("getrlimit");
    if (limit.rlim_cur < wanted) {
        struct rlimit more = {.rlim_cur = wanted, .rlim_max = limit.rlim_max < wanted ? wanted : limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) < 0) {
            more.rlim_cur = more.rlim_max = limit.rlim_max;
            if (setrlimit(RLIMIT_NOFILE, &more) < 0)
                die("setrlimit");
        }
        limit = more;
    }
    return limit.rlim_cur;
}

__attribute__((unused)) static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
