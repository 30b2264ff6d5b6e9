/* Clocks and hardware counters of Heddle.Measure.Counters. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) return -errno;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds of a clock, or the negated errno: EINVAL for that of a process that has ended. */
int64_t heddle_measure_clock(int32_t clock) { return clock_ns((clockid_t)clock); }

/* Opens a counter of the calling thread, user mode only: 0 counts instructions, 1 cache misses. A descriptor, or the
   negated errno. */
int32_t heddle_measure_perf_open(int32_t which) {
  struct perf_event_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_HARDWARE;
  attr.config = which == 0 ? PERF_COUNT_HW_INSTRUCTIONS : PERF_COUNT_HW_CACHE_MISSES;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : (int32_t)fd;
}

static int64_t perf_count(int32_t fd) {
  uint64_t value;
  if (fd < 0 || read(fd, &value, sizeof value) != sizeof value) return -1;
  return (int64_t)value;
}

/* Reads wall time, CPU time, instructions and cache misses into out[0..3]. The wall clock is read last at the beginning of
   a sample and first at its end, so that reading the others is not measured. */
void heddle_measure_read(int32_t cpu_clock, int32_t instructions, int32_t misses, int32_t at_end, int64_t *out) {
  if (at_end) out[0] = clock_ns(CLOCK_MONOTONIC);
  out[1] = clock_ns((clockid_t)cpu_clock);
  out[2] = perf_count(instructions);
  out[3] = perf_count(misses);
  if (!at_end) out[0] = clock_ns(CLOCK_MONOTONIC);
}
