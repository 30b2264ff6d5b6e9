/*
 * A client of HTTPS servers: what handshakes, kept connections and large files cost them.
 *
 *   tlsload --port PORT --mode 0 [--milliseconds N] [--resume 0|1]   handshakes: connect, handshake, one GET, close
 *   tlsload --port PORT --mode 1 	                      one GET of a large file, its content counted
 *   tlsload --port PORT --mode 2 --count N --step S [--h2 0|1]       idle connections, as idle.c holds them
 *
 * Mode 0 prints "begin" when its warm-up is over and then one line:
 *   handshakes 1234 resumed 1230 seconds 3.001 rate 411.2
 * Certificates are not verified: the servers' are self-signed. X25519 and TLS 1.3 alone, so that all servers do the
 * same work.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

enum { PER_ADDRESS = 20000 };

static SSL_SESSION *ticket;

__attribute__((noreturn)) static void refuse(const char *what)
{
    fprintf(stderr, "tlsload: %s: ", what);
    ERR_print_errors_fp(stderr);
    fputc('\n', stderr);
    exit(1);
}

static int keep_ticket(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(ticket);
    ticket = session;
    return 1; /* the reference is ours */
}

static int dial(long number, long port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(number / PER_ADDRESS % 64))};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static SSL *handshake(SSL_CTX *context, int fd, bool resume)
{
    SSL *ssl = SSL_new(context);
    if (!ssl || !SSL_set_fd(ssl, fd))
        refuse("SSL_new");
    SSL_set_tlsext_host_name(ssl, "localhost");
    if (resume && ticket)
        SSL_set_session(ssl, ticket);
    if (SSL_connect(ssl) != 1)
        refuse("handshake");
    return ssl;
}

static void send_request(SSL *ssl, const char *path)
{
    char request[512];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    if (SSL_write(ssl, request, n) != n)
        refuse("write");
}

/* Reads an answer with a length; returns how many bytes of content came. */
static long read_answer(SSL *ssl)
{
    static char buffer[65536];
    long length = 0, whole = -1, content = 0;
    while (whole < 0) {
        int got = SSL_read(ssl, buffer + length, sizeof buffer - 1 - length);
        if (got <= 0)
            refuse("read");
        length += got;
        buffer[length] = 0;
        char *body = strstr(buffer, "\r\n\r\n");
        if (body) {
            char *field = strcasestr(buffer, "\r\nContent-Length:");
            if (strncmp(buffer, "HTTP/1.1 200", 12) != 0 || !field || field > body) {
                fprintf(stderr, "tlsload: the answer is not a 200 with a length: %.60s\n", buffer);
                exit(1);
            }
            whole = strtol(field + 17, NULL, 10);
            content = length - (body + 4 - buffer);
        } else if (length == sizeof buffer - 1) {
            refuse("the answer's head is too long");
        }
    }
    while (content < whole) {
        int got = SSL_read(ssl, buffer, sizeof buffer);
        if (got <= 0)
            refuse("read");
        content += got;
    }
    return content;
}

static bool next_line(void)
{
    int byte;
    while ((byte = getchar()) != '\n')
        if (byte == EOF)
            return false;
    return true;
}

/* One GET / by HTTP/2, by hand: preface, empty SETTINGS, HEADERS of the static table with an indexed authority. */
static void get_h2(SSL *ssl)
{
    static const unsigned char request[] =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        "\0\0\0\4\0\0\0\0\0"
        "\0\0\16\1\5\0\0\0\1\202\207\204\101\11localhost";
    unsigned char frame[65536];
    int n = (int)sizeof request - 1;
    if (SSL_write(ssl, request, n) != n)
        refuse("write");
    for (bool ended = false; !ended;) {
        size_t have = 0, size = 9;
        while (have < size) {
            int got = SSL_read(ssl, frame + have, (int)(size - have));
            if (got <= 0)
                refuse("read");
            have += (size_t)got;
            if (have == 9)
                size = 9 + ((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);
            if (size > sizeof frame)
                refuse("a frame is too long");
        }
        if (frame[3] == 4 && !(frame[4] & 1))
            SSL_write(ssl, "\0\0\0\4\1\0\0\0\0", 9);
        if (frame[3] == 3 || frame[3] == 7)
            refuse("the stream was reset");
        ended = frame[3] <= 1 && (frame[4] & 1) && (frame[8] & 127) == 1;
    }
}

int main(int argc, char **argv)
{
    long port = 0, mode = 0, milliseconds = 3000, resume = 0, count = 1000, step = 1000, h2 = 0;
    parse_options(argc, argv,
                  (struct option_number[]){{"--port", &port, 1, 65535},
                                           {"--mode", &mode, 0, 2},
                                           {"--milliseconds", &milliseconds, 1, 3600000},
                                           {"--resume", &resume, 0, 1},
                                           {"--count", &count, 1, 1000000},
                                           {"--step", &step, 1, 1000000},
                                           {"--h2", &h2, 0, 1},
                                           {NULL, NULL, 0, 0}});
    if (port == 0) {
        fprintf(stderr, "usage: tlsload --port PORT --mode 0|1|2\n");
        return 2;
    }
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) || !SSL_CTX_set1_groups_list(context, "X25519"))
        refuse("SSL_CTX");
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_ticket);
    if (h2)
        SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\2h2", 3);

    if (mode == 1) {
        SSL *ssl = handshake(context, dial(0, port), false);
        int64_t start = now_ns();
        send_request(ssl, "/big.bin");
        long content = read_answer(ssl);
        printf("bytes %ld seconds %.3f\n", content, (now_ns() - start) / 1e9);
        return 0;
    }
    if (mode == 2) {
        raise_descriptors(count + 64);
        for (long number = 0; number < count; number++) {
            SSL *ssl = handshake(context, dial(number, port), true);
            if (h2) {
                get_h2(ssl);
            } else {
                send_request(ssl, "/151.html");
                read_answer(ssl);
            }
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
    long handshakes = 0, resumed = 0;
    int64_t start = now_ns(), warm = start + 500000000, end = INT64_MAX;
    bool counting = false;
    for (long number = 0;; number++) {
        int64_t now = now_ns();
        if (!counting && now >= warm) {
            /* Whoever measures the server reads its clock now, and again after the last line. */
            printf("begin\n");
            fflush(stdout);
            counting = true;
            handshakes = resumed = 0;
            start = now_ns();
            end = start + milliseconds * 1000000;
        }
        if (counting && now >= end)
            break;
        SSL *ssl = handshake(context, dial(number, port), resume);
        /* The tickets come with the first answer. */
        send_request(ssl, "/151.html");
        read_answer(ssl);
        handshakes++;
        resumed += SSL_session_reused(ssl);
        SSL_shutdown(ssl);
        int fd = SSL_get_fd(ssl);
        SSL_free(ssl);
        /* No TIME_WAIT: ports would run out. */
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(fd);
    }
    double seconds = (now_ns() - start) / 1e9;
    printf("handshakes %ld resumed %ld seconds %.3f rate %.1f\n", handshakes, resumed, seconds, handshakes / seconds);
    return 0;
}
