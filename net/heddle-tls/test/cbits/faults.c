/*
 * System calls and allocations that fail as the tests want it: a program's own functions take the place of the C library's.
 * Only calls that heddle makes are counted: the network package has recv() and send(), GHC's event manager waits for an
 * edge once (EPOLLONESHOT), and of the files only those count whose path has the wanted part.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVE, SEND, ACCEPT, REGISTER, OPEN, STATUS, READ, ALLOCATE, OPTION, CALLS };

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

static atomic_int wanted = -1, wanted_error, wanted_number;
static atomic_long seen[CALLS];
static atomic_int injected;
static char part[256];
/* The descriptor of the last file that was opened and counts. */
static atomic_int file = -1;

int faults_start(void);
void faults_want(int call, int error, int number, const char *path);
int faults_end(void);
long faults_seen(int call);
long faults_allocated(void);
void faults_later(int seconds);

/* From now on call number `number`, from 0 on, fails with this error; once. */
void faults_want(int call, int error, int number, const char *path)
{
    atomic_store(&wanted, -1);
    for (int i = 0; i < CALLS; i++) atomic_store(&seen[i], 0);
    strncpy(part, path, sizeof part - 1);
    atomic_store(&wanted_error, error);
    atomic_store(&wanted_number, number);
    atomic_store(&injected, 0);
    atomic_store(&wanted, call);
}

/* Nothing fails any more: has anything failed? */
int faults_end(void)
{
    atomic_store(&wanted, -1);
    part[0] = 0;
    return atomic_load(&injected);
}

/* How many such calls there were since faults_want. */
long faults_seen(int call) { return atomic_load(&seen[call]); }

static int fails(int call)
{
    long n = atomic_fetch_add(&seen[call], 1);
    if (atomic_load(&wanted) != call || n != atomic_load(&wanted_number)) return 0;
    atomic_store(&injected, 1);
    errno = atomic_load(&wanted_error);
    return 1;
}

#define REAL(name) \
    static _Atomic(void *) found; \
    void *real = atomic_load(&found); \
    if (!real) { real = dlsym(RTLD_NEXT, name); atomic_store(&found, real); }

long syscall(long number, ...)
{
    REAL("syscall")
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_recvfrom && fails(RECEIVE)) return -1;
    if (number == SYS_sendto && fails(SEND)) return -1;
    return ((long (*)(long, ...))real)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int accept4(int fd, struct sockaddr *address, socklen_t *n, int flags)
{
    REAL("accept4")
    if (fails(ACCEPT)) return -1;
    return ((int (*)(int, struct sockaddr *, socklen_t *, int))real)(fd, address, n, flags);
}

/* Those about kTLS. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t n)
{
    REAL("setsockopt")
    if (((level == IPPROTO_TCP && option == TCP_ULP) || level == SOL_TLS) && fails(OPTION)) return -1;
    return ((int (*)(int, int, int, const void *, socklen_t))real)(fd, level, option, value, n);
}

int epoll_ctl(int ep, int what, int fd, struct epoll_event *e)
{
    REAL("epoll_ctl")
    if (what == EPOLL_CTL_ADD && e && e->events & EPOLLRDHUP && fails(REGISTER)) return -1;
    return ((int (*)(int, int, int, struct epoll_event *))real)(ep, what, fd, e);
}

int open(const char *path, int flags, ...)
{
    REAL("open")
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    int counts = part[0] && strstr(path, part);
    if (counts && fails(OPEN)) return -1;
    int fd = ((int (*)(const char *, int, ...))real)(path, flags, mode);
    if (counts) atomic_store(&file, fd);
    else if (fd == atomic_load(&file)) atomic_store(&file, -1);
    return fd;
}

int fstat(int fd, struct stat *s)
{
    REAL("fstat")
    if (part[0] && fd == atomic_load(&file) && fails(STATUS)) return -1;
    return ((int (*)(int, struct stat *))real)(fd, s);
}

ssize_t read(int fd, void *p, size_t n)
{
    REAL("read")
    if (part[0] && fd == atomic_load(&file) && fails(READ)) return -1;
    return ((ssize_t (*)(int, void *, size_t))real)(fd, p, n);
}

static atomic_long later;

/* The coarse clock, which only the shim has, goes on by so much. */
void faults_later(int seconds) { atomic_fetch_add(&later, seconds); }

int clock_gettime(clockid_t clock, struct timespec *t)
{
    REAL("clock_gettime")
    int r = ((int (*)(clockid_t, struct timespec *))real)(clock, t);
    if (clock == CLOCK_MONOTONIC_COARSE && !r) t->tv_sec += atomic_load(&later);
    return r;
}

static atomic_long allocated;

/* How many allocations of libssl are not freed. */
long faults_allocated(void) { return atomic_load(&allocated); }

static void *test_malloc(size_t n, const char *where, int line)
{
    (void)where;
    (void)line;
    if (!n || fails(ALLOCATE)) return NULL;
    atomic_fetch_add(&allocated, 1);
    return malloc(n);
}

static void *test_realloc(void *p, size_t n, const char *where, int line)
{
    (void)where;
    (void)line;
    if (fails(ALLOCATE)) return NULL;
    if (!p) atomic_fetch_add(&allocated, 1);
    return realloc(p, n);
}

static void test_free(void *p, const char *where, int line)
{
    (void)where;
    (void)line;
    if (p) atomic_fetch_sub(&allocated, 1);
    free(p);
}

/* Before libssl's first allocation. */
int faults_start(void) { return CRYPTO_set_mem_functions(test_malloc, test_realloc, test_free); }
