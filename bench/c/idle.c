/*
 * Opens keep-alive connections, makes one GET on each, and then leaves them alone.
 *
 *   idle --port PORT --count N --step S
 *
 * After every S connections it prints "open N" and waits for a line on its standard input; when
 * all are open it holds them until its standard input ends.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/* A source address has some 28,000 ports; from 127.0.0.2 on there are enough addresses. */
enum { PER_ADDRESS = 20000 };

static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

static int open_connection(long number, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        die("socket");
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(number / PER_ADDRESS))};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    return fd;
}

static void get_once(int fd)
{
    char answer[65536];
    size_t length = 0, whole = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)(sizeof request - 1))
        die("send");
    while (whole == 0 || length < whole) {
        if (length == sizeof answer - 1) {
            fprintf(stderr, "idle: the answer is longer than %zu bytes\n", sizeof answer - 1);
            exit(1);
        }
        ssize_t got = recv(fd, answer + length, sizeof answer - 1 - length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            die("recv");
        if (got == 0) {
            fprintf(stderr, "idle: the server closed a connection\n");
            exit(1);
        }
        length += got;
        answer[length] = 0;
        char *body = strstr(answer, "\r\n\r\n");
        if (body && whole == 0) {
            char *field = strcasestr(answer, "\r\nContent-Length:");
            if (strncmp(answer, "HTTP/1.1 200", 12) != 0 || !field || field > body) {
                fprintf(stderr, "idle: the answer is not a 200 with a length: %.60s\n", answer);
                exit(1);
            }
            whole = (body + 4 - answer) + strtoul(field + 17, NULL, 10);
        }
    }
}

static bool next_line(void)
{
    int byte;
    while ((byte = getchar()) != '\n')
        if (byte == EOF)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    long port = 0, count = 1000, step = 1000;
    parse_options(argc, argv,
                  (struct option_number[]){{"--port", &port, 1, 65535},
                                           {"--count", &count, 1, 1000000},
                                           {"--step", &step, 1, 1000000},
                                           {NULL, NULL, 0, 0}});
    if (port == 0) {
        fprintf(stderr, "usage: idle --port PORT [--count N] [--step N]\n");
        return 2;
    }
    rlim_t descriptors = raise_descriptors(count + 64);
    if ((rlim_t)count + 16 > descriptors) {
        fprintf(stderr, "idle: %ld connections need more than the %llu descriptors allowed (ulimit -Hn)\n", count,
                (unsigned long long)descriptors);
        return 1;
    }
    for (long number = 0; number < count; number++) {
        get_once(open_connection(number, port));
        if ((number + 1) % step == 0 || number + 1 == count) {
            printf("open %ld\n", number + 1);
            fflush(stdout);
            if (!next_line())
                return 0;
        }
    }
    while (next_line())
        continue;
    return 0;
}
