/* What starting a program costs the server: by heddle_spawn, which makes the pipes, the pidfd and waits until the program has
 * been loaded, and by fork(2) alone, which copies the page tables. Prints microseconds of each, medians, for a server of
 * the given megabytes. */
#define _GNU_SOURCE
#include "../../net/heddle-gateway/cbits/heddle_spawn.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES 101

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int order(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 100) << 20;
  char *memory = malloc(size), *arguments[] = {"/bin/true", NULL}, *environment[] = {NULL};
  double spawned[TIMES], forked[TIMES];

  memset(memory, 1, size);
  for (int i = 0; i < TIMES; i++) {
    int32_t out[5];
    double before = now();
    if (heddle_spawn("/bin/true", arguments, environment, "/", 0, out) < 0)
      return 1;
    spawned[i] = now() - before;
    heddle_reap(out[1]);
    close(out[1]);
    close(out[3]);
    close(out[4]);
    before = now();
    pid_t pid = fork();
    if (pid == 0)
      _exit(0);
    forked[i] = now() - before;
    waitpid(pid, NULL, 0);
  }
  qsort(spawned, TIMES, sizeof *spawned, order);
  qsort(forked, TIMES, sizeof *forked, order);
  printf("spawn %.1f fork %.1f\n", spawned[TIMES / 2], forked[TIMES / 2]);
  free(memory);
  return 0;
}
