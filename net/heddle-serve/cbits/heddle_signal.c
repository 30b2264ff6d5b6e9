/*
 * Signals, told to one thread by a pipe of its own.
 *
 * GHC's runtime tells them by a pipe that its event manager reads. A read there that is interrupted, as some kernels and tracers
 * interrupt it, ends that manager with "failed to read siginfo_t", and then the process hears of no signal any more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int ends[2] = {-1, -1};
static pid_t owner;

/* A child that has not begun its program yet shares the pipe; its signals are not the server's. */
static void told(int signal) {
  int before = errno;
  unsigned char byte = (unsigned char)signal;
  if (getpid() == owner)
    while (write(ends[1], &byte, 1) < 0 && errno == EINTR) {
    }
  errno = before;
}

/* Makes the pipe, once in a process; 0 if this call did, 1 if there was one, or -errno. */
static int opened(void) {
  int made[2];
  if (ends[0] >= 0 && owner == getpid()) return 1;
  if (pipe2(made, O_CLOEXEC) != 0) return -errno;
  /* A handler never waits. What does not fit, 65,536 signals later, is lost. */
  if (fcntl(made[1], F_SETFL, O_NONBLOCK) != 0) {
    int wrong = errno;
    close(made[0]);
    close(made[1]);
    return -wrong;
  }
  ends[0] = made[0];
  ends[1] = made[1];
  owner = getpid();
  return 0;
}

int heddle_signal_open(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int r;
  pthread_mutex_lock(&lock);
  r = opened();
  pthread_mutex_unlock(&lock);
  return r;
}

/* Lets a signal be told from now on; 0 or -errno. */
int heddle_signal_tell(int signal) {
  struct sigaction action;
  sigset_t one;
  memset(&action, 0, sizeof action);
  action.sa_handler = told;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (sigaction(signal, &action, NULL) != 0) return -errno;
  sigemptyset(&one);
  sigaddset(&one, signal);
  return -pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

/* The next signal, waited for; -errno if there will be none. */
int heddle_signal_next(void) {
  for (;;) {
    unsigned char byte;
    ssize_t n = read(ends[0], &byte, 1);
    if (n == 1) return byte;
    if (n == 0 || errno != EINTR) return n == 0 ? -EPIPE : -errno;
  }
}
