// A clock that counts only while the process runs. Its thread is none of the Haskell runtime's: one that woke there 50 times a second
// would keep the runtime from being idle, and an idle runtime collects garbage, which finds threads that wait for ever.

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 20 };

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static _Atomic uint64_t elapsed_ms;

static void *tick(void *unused)
{
  (void)unused;
  const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
  for (;;) {
    // However late it returns, it counts once.
    nanosleep(&pause, NULL);
    atomic_fetch_add(&elapsed_ms, TICK_MS);
  }
  return NULL;
}

// Milliseconds since the first call, or UINT64_MAX when there can be no thread. A forked child, which has not inherited it, gets its own.
uint64_t heddle_testkit_clock(void)
{
  int failed = 0;
  pthread_mutex_lock(&starting);
  if (owner != getpid()) {
    // The runtime's signals are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    failed = pthread_create(&thread, NULL, tick, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) {
      pthread_detach(thread);
      owner = getpid();
    }
  }
  pthread_mutex_unlock(&starting);
  return failed ? UINT64_MAX : atomic_load(&elapsed_ms);
}
