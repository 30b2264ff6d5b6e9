/*
 * Load for the echo servers: connections that each send a message, wait until all of it is back,
 * and send it again. With --websocket 1 it is a WebSocket message of at most 125 bytes, masked on
 * its way there and not on its way back. Prints one line, with the round trips below which some
 * shares of all were:
 *
 *   round_trips 123456 seconds 3.001 rate 41138.3 mean_us 24.0 p1_us 19.9 ... p50_us 23.1 ... p99.9_us 50.1
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

struct connection {
    int fd;
    long unsent, awaited; /* bytes of the present round trip */
    int64_t began;
};

static char message[1 << 20], answer[1 << 20], sink[1 << 20];
static long message_bytes = 64, answer_bytes;
static uint64_t round_trips, nanoseconds_in_all;
/* In percent; bench/scaling.py draws them. */
static const double shares[] = {1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};
static bool counting;

/* Latencies in buckets 1/64 apart: the index is the exponent and the next six bits. */
static uint64_t buckets[64 * 64];

static void record(int64_t nanoseconds)
{
    uint64_t value = nanoseconds < 64 ? 64 : (uint64_t)nanoseconds;
    nanoseconds_in_all += value;
    int exponent = 63 - __builtin_clzll(value);
    buckets[exponent * 64 + ((value >> (exponent - 6)) & 63)]++;
}

/* In microseconds. */
static double percentile(double share)
{
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < 64 * 64; i++)
        total += buckets[i];
    for (int i = 0; i < 64 * 64; i++) {
        seen += buckets[i];
        if (seen > 0 && seen >= share * total)
            return (double)((uint64_t)(64 + i % 64) << (i / 64 - 6)) / 1000;
    }
    return 0;
}

static void push(struct connection *connection)
{
    while (connection->unsent > 0) {
        ssize_t sent = send(connection->fd, message + message_bytes - connection->unsent, connection->unsent,
                            MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN)
                return;
            die("send");
        }
        connection->unsent -= sent;
    }
}

static void begin(struct connection *connection)
{
    connection->unsent = message_bytes;
    connection->awaited = answer_bytes;
    connection->began = now_ns();
    push(connection);
}

static void advance(struct connection *connection)
{
    push(connection);
    for (;;) {
        ssize_t got = recv(connection->fd, sink, sizeof sink, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN)
                return;
            die("recv");
        }
        if (got == 0) {
            fprintf(stderr, "echoload: the server closed a connection\n");
            exit(1);
        }
        if (got > connection->awaited || memcmp(sink, answer + answer_bytes - connection->awaited, got) != 0) {
            fprintf(stderr, "echoload: what came back is not what was sent\n");
            exit(1);
        }
        connection->awaited -= got;
        if (connection->awaited == 0) {
            if (counting) {
                round_trips++;
                record(now_ns() - connection->began);
            }
            begin(connection);
        }
        if ((size_t)got < sizeof sink)
            return;
    }
}

static void run_until(int epoll, int64_t end)
{
    struct epoll_event events[256];
    for (;;) {
        int64_t left = end - now_ns();
        if (left <= 0)
            return;
        int count = epoll_wait(epoll, events, 256, (int)(left / 1000000) + 1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < count; i++)
            advance(events[i].data.ptr);
    }
}

/* The message as a WebSocket frame, and the answer as one. */
static void frame_message(void)
{
    static const char mask[4] = {0x12, 0x34, 0x56, 0x78};
    char content[125];
    long n = message_bytes;
    memcpy(content, message, n);
    message[0] = answer[0] = (char)0x82;
    message[1] = (char)(0x80 | n);
    answer[1] = (char)n;
    memcpy(message + 2, mask, 4);
    for (long i = 0; i < n; i++)
        message[6 + i] = content[i] ^ mask[i % 4];
    memcpy(answer + 2, content, n);
    message_bytes = n + 6;
    answer_bytes = n + 2;
}

static void open_websocket(int fd)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    char head[4096];
    size_t have = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)(sizeof request - 1))
        die("send");
    do {
        ssize_t got = recv(fd, head + have, sizeof head - 1 - have, 0);
        if (got <= 0)
            die("recv");
        have += (size_t)got;
        head[have] = 0;
    } while (have < 4 || memcmp(head + have - 4, "\r\n\r\n", 4) != 0);
    if (strncmp(head, "HTTP/1.1 101", 12) != 0 || !strstr(head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")) {
        fprintf(stderr, "echoload: the server does not speak WebSocket: %.60s\n", head);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    long port = 0, count = 1, milliseconds = 3000, warmup = 200, websocket = 0;
    parse_options(argc, argv,
                  (struct option_number[]){{"--port", &port, 1, 65535},
                                           {"--connections", &count, 1, 60000},
                                           {"--bytes", &message_bytes, 1, sizeof message},
                                           {"--milliseconds", &milliseconds, 1, 3600000},
                                           {"--warmup", &warmup, 0, 60000},
                                           {"--websocket", &websocket, 0, 1},
                                           {NULL, NULL, 0, 0}});
    if (port == 0) {
        fprintf(stderr, "usage: echoload --port PORT [--connections N] [--bytes N] [--milliseconds N] [--warmup MS]"
                        " [--websocket 1]\n");
        return 2;
    }
    raise_descriptors(count + 16);
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = answer[i] = (char)(i * 31 + (i >> 8));
    answer_bytes = message_bytes;
    if (websocket && message_bytes > 125) {
        fprintf(stderr, "echoload: a WebSocket message has at most 125 bytes here\n");
        return 2;
    }
    if (websocket)
        frame_message();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *connections = calloc(count, sizeof *connections);
    if (epoll < 0 || !connections)
        die("setting up");
    for (long i = 0; i < count; i++) {
        struct connection *connection = &connections[i];
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int one = 1;
        connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address) < 0)
            die("connect");
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (websocket)
            open_websocket(connection->fd);
        if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) < 0)
            die("fcntl");
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) < 0)
            die("epoll_ctl");
    }
    for (long i = 0; i < count; i++)
        begin(&connections[i]);
    run_until(epoll, now_ns() + warmup * 1000000);
    /* Whoever measures the server reads its clock now, and again after the last line. */
    printf("begin\n");
    fflush(stdout);
    counting = true;
    int64_t start = now_ns();
    run_until(epoll, start + milliseconds * 1000000);
    double seconds = (now_ns() - start) / 1e9;
    printf("round_trips %llu seconds %.3f rate %.1f mean_us %.3f", (unsigned long long)round_trips, seconds,
           round_trips / seconds, round_trips ? nanoseconds_in_all / 1e3 / round_trips : 0);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf(" p%g_us %.1f", shares[i], percentile(shares[i] / 100));
    printf("\n");
    return 0;
}
