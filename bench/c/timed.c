/*
 * Runs a program and says what it took.
 *
 *   timed [-n TIMES] [-o FILE] PROGRAM [ARGUMENT...]
 *
 * A line for each time: wall, user and system time in microseconds, most resident memory in KB, and the
 * wait status. A program started from here begins with the memory of this small process; started from
 * a Python it would begin with Python's, for the kernel counts that too in the most resident.
 *
 * The program's output goes to FILE, written over from its beginning: after the first time its pages are
 * there already. What is longer than the last output is cut off in the end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

extern char **environ;

static long long micros(struct timeval t)
{
    return (long long)t.tv_sec * 1000000 + t.tv_usec;
}

static int usage(void)
{
    fprintf(stderr, "usage: timed [-n TIMES] [-o FILE] PROGRAM [ARGUMENT...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    long times = 1;
    int output = -1, option;
    while ((option = getopt(argc, argv, "+n:o:")) != -1) {
        if (option == 'n') {
            times = strtol(optarg, NULL, 10);
        } else if (option == 'o') {
            output = open(optarg, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (output < 0)
                die(optarg);
        } else {
            return usage();
        }
    }
    if (optind == argc || times < 1)
        return usage();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (output >= 0)
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    for (long i = 0; i < times; i++) {
        if (output >= 0 && lseek(output, 0, SEEK_SET) < 0)
            die("lseek");
        pid_t pid;
        int state;
        struct rusage used;
        int64_t began = now_ns();
        errno = posix_spawnp(&pid, argv[optind], &actions, NULL, argv + optind, environ);
        if (errno)
            die(argv[optind]);
        while (wait4(pid, &state, 0, &used) < 0)
            if (errno != EINTR)
                die("wait4");
        int64_t wall = now_ns() - began;
        fprintf(stderr, "timed %.1f %lld %lld %ld %d\n", wall / 1000.0, micros(used.ru_utime),
                micros(used.ru_stime), used.ru_maxrss, state);
    }
    /* The offset is the program's own: as much as it wrote. */
    if (output >= 0 && ftruncate(output, lseek(output, 0, SEEK_CUR)) < 0)
        die("ftruncate");
    return 0;
}
