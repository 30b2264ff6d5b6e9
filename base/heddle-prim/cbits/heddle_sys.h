/* System calls for Heddle: each returns its result, or -errno. */
#ifndef HEDDLE_SYS_H
#define HEDDLE_SYS_H
#include <stdint.h>
#include <stddef.h>

#if UINTPTR_MAX != UINT64_MAX
#error "Heddle needs a 64-bit system: its counters, clocks and stacks of one word have 64 bits."
#endif

long heddle_recv(int fd, void *buffer, size_t length);
long heddle_peek(int fd, void *buffer, size_t length);
long heddle_send(int fd, const void *buffer, size_t length, int more);
long heddle_read(int fd, void *buffer, size_t length);
long heddle_write(int fd, const void *buffer, size_t length);
long heddle_writev(int fd, const void *vector, int count);
long heddle_accept(int fd, void *address, int32_t *length);
long heddle_socket(int family, int type, int protocol);
long heddle_bind(int fd, const void *address, int length);
long heddle_listen(int fd, int backlog);
long heddle_connect(int fd, const void *address, int length);
long heddle_sockname(int fd, void *address, int32_t *length, int peer);
long heddle_set_option(int fd, int level, int name, int value);
long heddle_get_option(int fd, int level, int name);
long heddle_shutdown(int fd, int how);
long heddle_nonblock(int fd);
long heddle_close(int fd);
long heddle_duplicate(int fd);
long heddle_epoll_create(void);
long heddle_epoll_add(int ep, int fd, uint32_t events, uint64_t tag);
long heddle_epoll_del(int ep, int fd);
long heddle_epoll_wait(int ep, void *events, int capacity, int milliseconds);
int heddle_event_bytes(void);
long heddle_poll(void *fds, int count, int milliseconds);
long heddle_poll_one(int fd, int events);
long heddle_epoll_renew(int ep);
long heddle_eventfd_renew(int fd);
long heddle_eventfd(void);
long heddle_eventfd_write(int fd);
long heddle_sendfile(int out, int in, int64_t offset, size_t length);
long heddle_pread(int fd, void *buffer, size_t length, int64_t offset);
long heddle_pread_nowait(int fd, void *buffer, size_t length, int64_t offset);
int heddle_directory_only(void);
long heddle_open(const char *path, int flags, int mode);
long heddle_open_beneath(int root, const char *path, int flags, int cached);
int heddle_is_socket(const char *path);
long heddle_unlink(const char *path);
long heddle_stat(int fd, int64_t *out);
int64_t heddle_monotonic(void);
int64_t heddle_epoch(void);
void heddle_nap(int64_t nanos);
int heddle_ticker_opened(void);
void heddle_fence(void);
int32_t heddle_utc_offset(int64_t seconds);
#endif
