/* Starts the program that takes a server's place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * With these descriptors open, which are closed at exec otherwise. posix_spawn neither copies the
 * process nor lets another thread's fork inherit them meanwhile. The process id, or -errno.
 */
int heddle_successor(const char *path, char *const arguments[], char *const environment[], const int *keep, int count) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  pid_t pid;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return -error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return -error;
  }
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  /* A descriptor duplicated onto itself stays open. */
  for (int i = 0; i < count && !error; i++) error = posix_spawn_file_actions_adddup2(&actions, keep[i], keep[i]);
  if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(&attributes, &defaults);
  if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error) error = posix_spawn(&pid, path, &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error ? -error : (int)pid;
}

/* Ends it, if it has not ended, and collects it. Its exit status, or 128 and the signal that ended it; -errno. */
int heddle_successor_end(int pid) {
  int status;
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A pipe, neither end of which outlives an exec: its reading and its writing end; 0 or -errno. */
int heddle_successor_pipe(int ends[2]) {
  return pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
}

/* Two connected sockets, neither of which outlives an exec; 0 or -errno. */
int heddle_successor_pair(int ends[2]) {
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;
}

/* A file in memory with this many random bytes, which does not outlive an exec; or -errno. */
int heddle_successor_secret(int size) {
  char bytes[256];
  if (size < 0 || (size_t)size > sizeof bytes) return -EINVAL;
  if (getrandom(bytes, (size_t)size, 0) != size) return -EIO;
  int fd = memfd_create("heddle-tickets", MFD_CLOEXEC);
  if (fd < 0) return -errno;
  if (write(fd, bytes, (size_t)size) != size) {
    int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

/* What such a file has: how many bytes, or -errno. */
int heddle_successor_read_secret(int fd, char *bytes, int size) {
  ssize_t n = pread(fd, bytes, (size_t)size, 0);
  return n < 0 ? -errno : (int)n;
}

/* Waits until a child ends, and collects it: its exit status, or 128 and the signal that ended it; -errno. */
int heddle_successor_wait(int pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Ends this process with the thread that has started it. 0 if that is gone already. */
int heddle_successor_follow(int parent) {
  return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent;
}
