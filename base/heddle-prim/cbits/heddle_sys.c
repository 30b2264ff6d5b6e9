#define _GNU_SOURCE
#include "heddle_sys.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ANSWER(call) do { long r_ = (call); return r_ < 0 ? -(long)errno : r_; } while (0)

/* Not recv() and send(): in a process with threads those are cancellation points, which costs
   several nanoseconds a call; nothing here is ever cancelled that way. */
long heddle_recv(int fd, void *b, size_t n)
{ ANSWER(syscall(SYS_recvfrom, fd, b, n, MSG_DONTWAIT, NULL, NULL)); }
long heddle_peek(int fd, void *b, size_t n)
{ ANSWER(syscall(SYS_recvfrom, fd, b, n, MSG_DONTWAIT | MSG_PEEK, NULL, NULL)); }
long heddle_send(int fd, const void *b, size_t n, int more)
{ ANSWER(syscall(SYS_sendto, fd, b, n, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0), NULL, 0)); }
long heddle_read(int fd, void *b, size_t n) { ANSWER(read(fd, b, n)); }
long heddle_write(int fd, const void *b, size_t n) { ANSWER(write(fd, b, n)); }
long heddle_writev(int fd, const void *v, int n)
{
    struct msghdr m = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n };
    ANSWER(sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT));
}
long heddle_accept(int fd, void *a, int32_t *n)
{ ANSWER(accept4(fd, a, (socklen_t *)n, SOCK_NONBLOCK | SOCK_CLOEXEC)); }
long heddle_socket(int f, int t, int p) { ANSWER(socket(f, t | SOCK_NONBLOCK | SOCK_CLOEXEC, p)); }
long heddle_bind(int fd, const void *a, int n) { ANSWER(bind(fd, a, (socklen_t)n)); }
long heddle_listen(int fd, int backlog) { ANSWER(listen(fd, backlog)); }
long heddle_connect(int fd, const void *a, int n) { ANSWER(connect(fd, a, (socklen_t)n)); }
long heddle_sockname(int fd, void *a, int32_t *n, int peer)
{ ANSWER(peer ? getpeername(fd, a, (socklen_t *)n) : getsockname(fd, a, (socklen_t *)n)); }
long heddle_set_option(int fd, int level, int name, int value)
{ ANSWER(setsockopt(fd, level, name, &value, sizeof value)); }
long heddle_get_option(int fd, int level, int name)
{
    int value = 0;
    socklen_t n = sizeof value;
    return getsockopt(fd, level, name, &value, &n) < 0 ? -(long)errno : value;
}
long heddle_shutdown(int fd, int how) { ANSWER(shutdown(fd, how)); }
long heddle_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return -(long)errno;
    ANSWER(flags & O_NONBLOCK ? 0 : fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}
long heddle_close(int fd) { ANSWER(close(fd)); }
long heddle_duplicate(int fd) { ANSWER(fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

long heddle_epoll_create(void) { ANSWER(epoll_create1(EPOLL_CLOEXEC)); }
long heddle_epoll_add(int ep, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event e = { .events = events, .data.u64 = tag };
    ANSWER(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}
long heddle_epoll_del(int ep, int fd)
{
    struct epoll_event e = { 0 };
    ANSWER(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
}
long heddle_epoll_wait(int ep, void *e, int n, int ms) { ANSWER(epoll_wait(ep, e, n, ms)); }
int heddle_event_bytes(void) { return (int)sizeof(struct epoll_event); }
long heddle_poll(void *fds, int n, int ms) { ANSWER(poll(fds, (nfds_t)n, ms)); }
long heddle_poll_one(int fd, int events)
{
    struct pollfd p = { .fd = fd, .events = (short)events };
    int r = poll(&p, 1, 0);
    return r < 0 ? -(long)errno : p.revents;
}
/* A new description under an old number: for a forked process, which shares its parent's. */
static long replace(long made, int old)
{
    if (made < 0) return -(long)errno;
    long r = dup3((int)made, old, O_CLOEXEC) < 0 ? -(long)errno : 0;
    close((int)made);
    return r;
}
long heddle_epoll_renew(int ep) { return replace(epoll_create1(EPOLL_CLOEXEC), ep); }
long heddle_eventfd_renew(int fd) { return replace(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), fd); }
long heddle_eventfd(void) { ANSWER(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }
long heddle_eventfd_write(int fd) { ANSWER(eventfd_write(fd, 1)); }

long heddle_sendfile(int out, int in, int64_t offset, size_t n)
{
    off_t o = offset;
    ANSWER(sendfile(out, in, &o, n));
}
long heddle_pread(int fd, void *b, size_t n, int64_t o) { ANSWER(pread(fd, b, n, o)); }
long heddle_pread_nowait(int fd, void *b, size_t n, int64_t o)
{
    struct iovec v = { .iov_base = b, .iov_len = n };
    ANSWER(preadv2(fd, &v, 1, o, RWF_NOWAIT));
}
/* Numbers that Heddle.Prim.File, .Socket, .Errno and .Poller know: those of most machines, but not of MIPS, Alpha, SPARC. */
_Static_assert(O_NOCTTY == 0x100 && O_NONBLOCK == 0x800 && (O_WRONLY | O_CREAT | O_TRUNC) == 0x241
    && (O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK) == 0xC41, "Heddle.Prim.File: flags of open");
_Static_assert(S_IFREG == 0100000 && S_IFDIR == 0040000, "Heddle.Prim.File: types of files");
_Static_assert(SOCK_STREAM == 1 && SOL_SOCKET == 1 && SO_REUSEADDR == 2 && SO_TYPE == 3 && SO_ERROR == 4
    && SO_REUSEPORT == 15, "Heddle.Prim.Socket: options");
_Static_assert(EAGAIN == 11 && ENAMETOOLONG == 36 && ELOOP == 40 && ENOTSOCK == 88 && EADDRINUSE == 98
    && ETIMEDOUT == 110 && EINPROGRESS == 115, "Heddle.Prim.Errno: numbers");
_Static_assert(EPOLLIN == 0x1 && EPOLLOUT == 0x4 && EPOLLRDHUP == 0x2000 && EPOLLET == 1u << 31
    && sizeof(struct pollfd) == 8, "Heddle.Prim.Poller: bits");
int heddle_directory_only(void) { return O_PATH | O_DIRECTORY; }
/* Opening a named pipe waits for its other end, and a signal interrupts that. */
long heddle_open(const char *p, int flags, int mode)
{
    int fd;
    do fd = open(p, flags | O_CLOEXEC, mode); while (fd < 0 && errno == EINTR);
    ANSWER(fd);
}
/*
 * A path with ".." fails with EAGAIN if anything in the system was renamed meanwhile, which soon passes. A file with a lease, opened
 * without waiting, fails with it, too, for longer.
 */
long heddle_open_beneath(int root, const char *p, int flags, int cached)
{
    struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (cached ? RESOLVE_CACHED : 0) };
    long fd;
    int tries = 0;
    do fd = syscall(SYS_openat2, root, p, &how, sizeof how);
    while (fd < 0 && !cached && (errno == EINTR || (errno == EAGAIN && ++tries < 100)));
    ANSWER(fd);
}
long heddle_replace(int new, int old) { ANSWER(dup3(new, old, O_CLOEXEC)); }
int heddle_is_socket(const char *p)
{
    struct stat s;
    return lstat(p, &s) == 0 && S_ISSOCK(s.st_mode);
}
long heddle_unlink(const char *p) { ANSWER(unlink(p)); }
long heddle_stat(int fd, int64_t *out)
{
    struct stat s;
    if (fstat(fd, &s) < 0) return -(long)errno;
    out[0] = s.st_mode & S_IFMT;
    out[1] = s.st_size;
    out[2] = s.st_mtim.tv_sec;
    out[3] = s.st_mtim.tv_nsec;
    out[4] = (int64_t)s.st_ino;
    out[5] = (int64_t)s.st_dev;
    out[6] = s.st_ctim.tv_sec;
    out[7] = s.st_ctim.tv_nsec;
    return 0;
}

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
int64_t heddle_monotonic(void) { return now(CLOCK_MONOTONIC); }
int64_t heddle_epoch(void) { return now(CLOCK_REALTIME); }
void heddle_nap(int64_t nanos)
{
    struct timespec t = { .tv_sec = nanos / 1000000000, .tv_nsec = nanos % 1000000000 };
    nanosleep(&t, NULL);
}
/* Whether the runtime's timer has its descriptor; also 1 if that cannot be known, as without /proc. */
int heddle_ticker_opened(void)
{
    DIR *all = opendir("/proc/self/fd");
    if (all == NULL)
        return errno != EMFILE && errno != ENFILE;
    int opened = 0;
    for (struct dirent *each; !opened && (each = readdir(all)) != NULL;) {
        char target[32];
        ssize_t n = readlinkat(dirfd(all), each->d_name, target, sizeof target);
        opened = n == 20 && memcmp(target, "anon_inode:[timerfd]", 20) == 0;
    }
    closedir(all);
    return opened;
}
void heddle_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/* How many forks lie between the program's first process and this one. */
int heddle_forks;
static void forked(void) { heddle_forks++; }
__attribute__((constructor)) static void count_forks(void) { pthread_atfork(NULL, NULL, forked); }

int32_t heddle_utc_offset(int64_t seconds)
{
    time_t t = seconds;
    struct tm local;
    return localtime_r(&t, &local) ? (int32_t)(local.tm_gmtoff / 60) : 0;
}
