/* Peers that do what no Heddle program does: libssl with a blocking socket. Used by safe calls only. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void patience(int fd)
{
    struct timeval t = { 20, 0 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

/* A call on a socket with such a limit ends when the process was stopped and goes on (signal(7)); it is made again. */
static int stopped(SSL *ssl, int r)
{
    int interrupted = errno == EINTR, e = r > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, r);
    return interrupted && (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE);
}

static int shakes_hands(SSL *ssl)
{
    int r;
    do errno = 0, r = SSL_do_handshake(ssl); while (stopped(ssl, r));
    return r;
}

static int reads(SSL *ssl, void *p, int n)
{
    int r;
    do errno = 0, r = SSL_read(ssl, p, n); while (stopped(ssl, r));
    return r;
}

static int writes(SSL *ssl, const void *p, int n)
{
    int r;
    do errno = 0, r = SSL_write(ssl, p, n); while (stopped(ssl, r));
    return r;
}

static struct sockaddr_in local(int port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons((uint16_t)port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

/* Connect to an echo server and change the keys that often, with a byte and its echo after each `every` changes and at the
   end. How many bytes came back; -1: no session. */
int peer_key_updates(int port, int count, int every)
{
    struct sockaddr_in a = local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), echoed = -1;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = ctx ? SSL_new(ctx) : NULL;
    char b;
    if (!ssl || fd < 0) goto out;
    SSL_set_min_proto_version(ssl, TLS1_3_VERSION);
    patience(fd);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) || !SSL_set_fd(ssl, fd) || (SSL_set_connect_state(ssl), shakes_hands(ssl)) != 1) goto out;
    echoed = 0;
    for (int i = 1; i <= count; i++) {
        if (!SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) || shakes_hands(ssl) != 1) goto out;
        if (i % every && i < count) continue;
        if (writes(ssl, "x", 1) != 1 || reads(ssl, &b, 1) != 1) goto out;
        echoed++;
    }
out:
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    if (fd >= 0) close(fd);
    return echoed;
}

/* Accept one connection from the listening socket, send that many tickets and then a byte, and wait for the end. 0: all
   were taken by the socket. */
int peer_tickets(int listening, const char *chain, const char *key, int count)
{
    /* Haskell's sockets do not block. */
    struct pollfd waits = { listening, POLLIN, 0 };
    int result = -1, fd = poll(&waits, 1, 20000) == 1 ? accept4(listening, NULL, NULL, SOCK_CLOEXEC) : -1;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl = NULL;
    char b;
    if (fd < 0 || !ctx) goto out;
    patience(fd);
    if (SSL_CTX_use_certificate_chain_file(ctx, chain) != 1 || SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) goto out;
    if (!(ssl = SSL_new(ctx)) || !SSL_set_fd(ssl, fd) || (SSL_set_accept_state(ssl), shakes_hands(ssl)) != 1) goto out;
    for (int i = 0; i < count; i++)
        if (!SSL_new_session_ticket(ssl) || shakes_hands(ssl) != 1) goto out;
    if (writes(ssl, "x", 1) != 1) goto out;
    result = 0;
    reads(ssl, &b, 1);
out:
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    if (fd >= 0) close(fd);
    return result;
}

/* Connect, send a byte, read that much, send a byte, and read one. New keys are asked for before (1) or after (2) what is read.
   How many bytes came; -1: no session. */
long peer_reads(int port, long size, int ask, int segment)
{
    struct sockaddr_in a = local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    long got = -1;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = ctx ? SSL_new(ctx) : NULL;
    static char b[65536];
    if (!ssl || fd < 0) goto out;
    SSL_set_min_proto_version(ssl, TLS1_3_VERSION);
    patience(fd);
    if (segment && setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment)) goto out;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) || !SSL_set_fd(ssl, fd) || (SSL_set_connect_state(ssl), shakes_hands(ssl)) != 1) goto out;
    got = 0;
    for (int turn = 1; turn <= 2; turn++) {
        if (ask == turn && (!SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) || shakes_hands(ssl) != 1)) goto out;
        if (writes(ssl, "x", 1) != 1) goto out;
        for (long most = turn == 1 ? size : size + 1; got < most;) {
            int n = reads(ssl, b, most - got > (long)sizeof b ? (int)sizeof b : (int)(most - got));
            if (n <= 0) goto out;
            got += n;
        }
    }
out:
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    if (fd >= 0) close(fd);
    return got;
}
