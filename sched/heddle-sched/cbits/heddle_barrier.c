// membarrier(2), for Heddle.Sched.Internal.Barrier.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANSWER(call) do { long r_ = (call); return r_ < 0 ? -(int)errno : (int)r_; } while (0)

// A process must register before it may use the barrier. Registering again changes nothing.
int heddle_barrier_register(void)
{ ANSWER(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)); }

int heddle_barrier(void)
{ ANSWER(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)); }

// With several threads, registering waits for an RCU grace period, 10 to 15 ms; with one thread it takes less than a
// microsecond. So programs with this file linked in register before main, while they have one. Where threads exist by
// then (in GHCi, say), Heddle.Sched.Internal.Barrier registers at its first use.
__attribute__((constructor)) static void register_early(void)
{
  if (__libc_single_threaded)
    (void)heddle_barrier_register();
}
