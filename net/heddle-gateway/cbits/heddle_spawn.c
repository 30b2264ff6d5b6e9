/* Starting, signalling and awaiting the programs of Heddle.Gateway.Program.
 *
 * posix_spawn makes the child by clone(CLONE_VM | CLONE_VFORK): no page table is copied, however large the server is, and
 * only the calling OS thread stands still until the program has been loaded. The caller is a safe foreign call, so the
 * capability goes on. Every descriptor of the server is closed on exec, and beyond that all above 2 are closed.
 *
 * A process is reaped by its pidfd and signalled by its number or its group's. The caller signals under a lock that it also
 * holds to reap, so a number is never that of another process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static void close_all(int *fds, int n)
{
  for (int i = 0; i < n; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

/* Start a program. out receives its number, its pidfd, and the server's ends of its standard input, output and error,
 * non-blocking; the input's is -1 if the program shall read nothing. 0, or minus the error number. */
long heddle_spawn(const char *path, char *const argv[], char *const envp[], const char *directory, int reads, int32_t out[5])
{
  /* The program's ends, then ours. */
  int fds[6] = {-1, -1, -1, -1, -1, -1};
  int pair[2];
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  struct sigaction children;
  pid_t pid = 0;
  int error;

  /* Whoever started the server may have let it ignore SIGCHLD. The kernel would then reap, nobody would learn how a program
   * has ended, and its number would be free to be another's. */
  if (sigaction(SIGCHLD, NULL, &children) == 0 && (children.sa_handler == SIG_IGN || (children.sa_flags & SA_NOCLDWAIT)))
    signal(SIGCHLD, SIG_DFL);
  if (reads) {
    if (pipe2(pair, O_CLOEXEC) < 0)
      return -errno;
    fds[0] = pair[0];
    fds[3] = pair[1];
  } else if ((fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
    return -errno;
  for (int i = 1; i < 3; i++) {
    if (pipe2(pair, O_CLOEXEC) < 0) {
      error = errno;
      close_all(fds, 6);
      return -error;
    }
    fds[i] = pair[1];
    fds[3 + i] = pair[0];
  }
  /* dup2 onto itself would keep close-on-exec, so the program's ends lie above what they become. */
  for (int i = 0; i < 3; i++)
    if (fds[i] < 3) {
      int above = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
      if (above < 0) {
        error = errno;
        close_all(fds, 6);
        return -error;
      }
      close(fds[i]);
      fds[i] = above;
    }

  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  sigemptyset(&none);
  sigfillset(&all);
  error = posix_spawn_file_actions_adddup2(&actions, fds[0], 0);
  if (!error)
    error = posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  if (!error)
    error = posix_spawn_file_actions_adddup2(&actions, fds[2], 2);
  if (!error)
    error = posix_spawn_file_actions_addchdir_np(&actions, directory);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  if (!error)
    error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
  /* A group of its own, whatever it starts; no signal blocked or ignored, as the server has SIGPIPE. */
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error)
    error = posix_spawn(&pid, path, &actions, &attributes, argv, envp);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close_all(fds, 3);
  if (!error) {
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
      error = errno;
      kill(-pid, SIGKILL);
      waitpid(pid, NULL, 0);
    } else {
      out[0] = pid;
      out[1] = pidfd;
      for (int i = 0; i < 3; i++) {
        out[2 + i] = fds[3 + i];
        if (fds[3 + i] >= 0)
          fcntl(fds[3 + i], F_SETFL, O_NONBLOCK);
      }
      return 0;
    }
  }
  close_all(fds + 3, 3);
  return -error;
}

/* 1 if a process has ended, which stays to be reaped; -EAGAIN if it runs. */
long heddle_ended(int pidfd)
{
  siginfo_t info = {0};
  if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
    return -errno;
  return info.si_pid == 0 ? -EAGAIN : 1;
}

/* Reap a process that has ended or is about to: its exit code, or 256 plus the number of the signal that ended it. A
 * registered pidfd is non-blocking, and then waitid does not wait either. */
long heddle_reap(int pidfd)
{
  siginfo_t info = {0};
  while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
    if (errno == EAGAIN)
      poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, -1);
    else if (errno != EINTR)
      return -errno;
  return info.si_code == CLD_EXITED ? info.si_status : 256 + info.si_status;
}

/* Signal a process and its group. The process has not been reaped. */
long heddle_signal_group(int pid, int number)
{
  return kill(-pid, number) < 0 ? -errno : 0;
}

long heddle_pipe_read(int fd, void *to, size_t n)
{
  ssize_t r = read(fd, to, n);
  return r < 0 ? -errno : r;
}

long heddle_pipe_write(int fd, const void *from, size_t n)
{
  ssize_t r = write(fd, from, n);
  return r < 0 ? -errno : r;
}

/* Open a path below a directory, which has no links that lead out of it. With ".." in it that fails with EAGAIN if anything
 * in the system was renamed meanwhile. */
static int open_beneath(int directory, const char *path)
{
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  int fd;
  int tries = 0;

  do
    fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
  while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 100)));
  return fd;
}

/* The program that a path below a directory leads to: the length of the part of the path that names it. -EISDIR if all of
 * the path is a directory, -EACCES if the program is no executable file. Neither dots nor symbolic links lead out of the
 * directory. */
long heddle_cgi_find(int root, char *path)
{
  size_t end = 0;

  for (;;) {
    struct stat status;
    char after;
    int fd, error = 0;

    while (path[end] && path[end] != '/')
      end++;
    after = path[end];
    path[end] = 0;
    fd = open_beneath(root, path);
    if (fd < 0)
      error = errno;
    else {
      if (fstat(fd, &status) < 0)
        error = errno;
      else if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        error = EACCES;
      else if (S_ISREG(status.st_mode) && faccessat(root, path, X_OK, AT_EACCESS) < 0)
        error = errno;
      close(fd);
    }
    path[end] = after;
    if (error)
      return -error;
    if (S_ISREG(status.st_mode))
      return (long)end;
    if (!after)
      return -EISDIR;
    end++;
  }
}

/* Whether a path names an executable file: 0, or minus the error number. */
long heddle_executable(const char *path)
{
  struct stat status;
  if (stat(path, &status) < 0)
    return -errno;
  if (!S_ISREG(status.st_mode))
    return -ENOTDIR;
  return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/*
 * Whether a relative path names a regular file below a directory, without links that lead out of it: 0, or minus an error
 * number.
 */
long heddle_regular(const char *root, const char *path)
{
  struct stat status;
  int error = 0;
  int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return -errno;
  int fd = open_beneath(directory, path);
  if (fd < 0)
    error = errno;
  else {
    if (fstat(fd, &status) < 0)
      error = errno;
    else if (!S_ISREG(status.st_mode))
      error = EISDIR;
    close(fd);
  }
  close(directory);
  return -error;
}
