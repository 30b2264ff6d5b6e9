/*
 * An edge-triggered epoll server: one thread, one epoll and one SO_REUSEPORT listener per core,
 * nothing shared. A descriptor is registered once in its life, for both directions.
 *
 * The including program defines `struct connection`, whose first member is `int fd`, and
 *   static bool serve(struct worker *, struct connection *, bool hangup);   false: close it
 *   static void dispose(struct connection *);                               frees what it holds
 * and calls run_server(). serve() is called whenever the connection may have become readable or
 * writable; it must go on until the kernel says EAGAIN or hands out less than was asked for. With
 * hangup the end of the input is already in sight, and less than was asked for is not enough.
 */
#ifndef HEDDLE_BENCH_SERVER_H
#define HEDDLE_BENCH_SERVER_H

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

struct worker {
    pthread_t thread;
    int core, epoll, listener, reserve;
    uint64_t served;
    char buffer[65536];
};

static bool serve(struct worker *worker, struct connection *connection, bool hangup);
static void dispose(struct connection *connection);

/* One table for all threads: the kernel never gives out a descriptor that is open. */
static struct connection *connections;
static size_t connections_size;

static int open_listener(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) < 0)
        die("socket");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("bind");
    if (listen(fd, 4096) < 0)
        die("listen");
    return fd;
}

static void close_connection(struct connection *connection)
{
    dispose(connection);
    close(connection->fd);
}

/* Out of descriptors: the reserve lets us take the connection off the queue and refuse it. */
static bool refuse_one(struct worker *worker)
{
    close(worker->reserve);
    int fd = accept4(worker->listener, NULL, NULL, 0);
    if (fd >= 0)
        close(fd);
    worker->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void accept_all(struct worker *worker)
{
    for (;;) {
        int fd = accept4(worker->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if ((errno == EMFILE || errno == ENFILE) && refuse_one(worker))
                continue;
            return;
        }
        if ((size_t)fd >= connections_size) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct connection *connection = &connections[fd];
        memset(connection, 0, sizeof *connection);
        connection->fd = fd;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
        if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            close(fd);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    if (worker->core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(worker->core, &cores);
        pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
    }
    struct epoll_event events[256];
    for (;;) {
        int count = epoll_wait(worker->epoll, events, 256, -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection)
                accept_all(worker);
            else if (!serve(worker, connection, events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
                close_connection(connection);
        }
    }
    return NULL;
}

/* Serves until SIGTERM or SIGINT, then says how much was served. */
static int run_server(int argc, char **argv)
{
    long port = 0, threads = 1;
    parse_options(argc, argv,
                  (struct option_number[]){
                      {"--port", &port, 1, 65535}, {"--threads", &threads, 1, 64}, {NULL, NULL, 0, 0}});
    if (port == 0) {
        fprintf(stderr, "usage: %s --port PORT [--threads N]\n", program_invocation_short_name);
        return 2;
    }
    connections_size = raise_descriptors(65536);
    connections = calloc(connections_size, sizeof *connections);
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!connections || !workers)
        die("calloc");

    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);

    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        die("sched_getaffinity");
    int core = -1;
    for (long i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        worker->core = -1;
        if (threads > 1) {
            do
                core = (core + 1) % CPU_SETSIZE;
            while (!CPU_ISSET(core, &allowed));
            worker->core = core;
        }
        worker->listener = open_listener(port);
        worker->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
        worker->epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        if (worker->epoll < 0 || epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->listener, &event) < 0)
            die("epoll");
    }
    for (long i = 0; i < threads; i++)
        if ((errno = pthread_create(&workers[i].thread, NULL, work, &workers[i])) != 0)
            die("pthread_create");

    int signal_number;
    sigwait(&stop, &signal_number);
    uint64_t served = 0;
    for (long i = 0; i < threads; i++)
        served += __atomic_load_n(&workers[i].served, __ATOMIC_RELAXED);
    printf("served %llu\n", (unsigned long long)served);
    return 0;
}

#endif
