/*
 * A process beside the server that keeps the right to read the certificates' files, when the server gives up its rights.
 *
 * It opens no other files than those that it was started for, for whoever holds the socket, and ends when nobody does. A request is
 * a path and a socket for the answer, so that a server and its successor may ask at once; the answer is an error number and, if that
 * is 0, a descriptor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 4096, PATIENCE_MS = 10000 };

/* Sends bytes and at most one descriptor; 0 or -errno. */
static int send_with(int to, const void *bytes, size_t size, int fd) {
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec piece = {.iov_base = (void *)bytes, .iov_len = size};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  if (fd >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.room;
    message.msg_controllen = sizeof control.room;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  ssize_t n;
  do n = sendmsg(to, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : 0;
}

/* Receives bytes and the descriptor that came with them, or -1; how many bytes, or -errno. */
static ssize_t receive_with(int from, void *bytes, size_t size, int *fd) {
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec piece = {.iov_base = bytes, .iov_len = size};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  ssize_t n;
  *fd = -1;
  do n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int))) memcpy(fd, CMSG_DATA(h), sizeof(int));
  return n;
}

/* All rights but reading any file; 0 or -1. */
static int give_up_rights(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct rights[2];
  if (syscall(SYS_capget, &header, rights) < 0) return -1;
  unsigned reading = rights[0].permitted & (1u << CAP_DAC_READ_SEARCH);
  memset(rights, 0, sizeof rights);
  rights[0].permitted = rights[0].effective = reading;
  return syscall(SYS_capset, &header, rights) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -1 : 0;
}

/* What stands for the opened file, or -errno. */
static int opened(const char *const *paths, int count, const char *path) {
  int known = 0;
  for (int i = 0; i < count; i++) known |= strcmp(paths[i], path) == 0;
  if (!known) return -EACCES;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  return fd < 0 ? -errno : fd;
}

/* Only calls that are safe after a fork of a process with threads. */
static _Noreturn void keep(int keeper, const char *const *paths, int count) {
  static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGVTALRM, SIGTSTP, SIGCONT};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
  setsid();
  prctl(PR_SET_NAME, "heddle-keeper", 0, 0, 0);
  /* Standard streams too: whoever reads the server's output must see its end. */
  if (keeper != 0) dup2(keeper, 0);
  if (syscall(SYS_close_range, 1u, ~0u, 0u) < 0)
    for (int fd = 1; fd < 65536; fd++) close(fd);
  if (give_up_rights() < 0) _exit(1);
  for (;;) {
    char path[LONGEST + 1];
    int answer;
    ssize_t n = receive_with(0, path, LONGEST, &answer);
    if (n <= 0) _exit(n < 0);
    path[n] = 0;
    if (answer < 0) continue;
    int fd = opened(paths, count, path), error = fd < 0 ? -fd : 0;
    send_with(answer, &error, sizeof error, fd);
    if (fd >= 0) close(fd);
    close(answer);
  }
}

/* Starts the process, for these files. Its socket, which does not outlive an exec, or -errno. */
int heddle_keeper_start(const char *const *paths, int count) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
  pid_t pid = fork();
  if (pid == 0) {
    /* A child of init's, so that nobody has to collect it. */
    pid = fork();
    if (pid == 0) {
      close(ends[0]);
      keep(ends[1], paths, count);
    }
    _exit(pid < 0 ? errno : 0);
  }
  int error = pid < 0 ? errno : 0, status = 0;
  close(ends[1]);
  if (pid > 0) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status)) error = WEXITSTATUS(status);
  }
  if (error) {
    close(ends[0]);
    return -error;
  }
  return ends[0];
}

/* Opens a file by the process: a descriptor for reading, or -errno, among them -ETIMEDOUT after ten seconds and -EPIPE if it has ended. */
int heddle_keeper_open(int keeper, const char *path) {
  int ends[2], error, fd;
  size_t size = strlen(path);
  /* Nothing would be the end of the socket. */
  if (size == 0) return -ENOENT;
  if (size > LONGEST) return -ENAMETOOLONG;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
  error = send_with(keeper, path, size, ends[1]);
  close(ends[1]);
  if (error == 0) {
    struct pollfd waiting = {.fd = ends[0], .events = POLLIN};
    int ready;
    do ready = poll(&waiting, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    int code = EPIPE;
    ssize_t n = ready > 0 ? receive_with(ends[0], &code, sizeof code, &fd) : 0;
    error = ready == 0 ? -ETIMEDOUT : n < 0 ? (int)n : n != sizeof code ? -EPIPE : code ? -code : fd < 0 ? -EPIPE : fd;
  }
  close(ends[0]);
  return error;
}
