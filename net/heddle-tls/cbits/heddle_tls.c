/* Sessions: a BIO of ours over the socket, and the steps that Haskell calls. */
#include "heddle_tls_internal.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    RECORD = 16384,                    /* Plain bytes of a record. */
    RECORD_ROOM = 16384 + 256,         /* And with its header, padding and tag. */
    READ_BUDGET = 3 * RECORD_ROOM,     /* One call needs a record's rest and tickets before it; it would go on with others. */
    EMPTY_MESSAGES = 32,               /* New keys and tickets without content between them: a peer has no use for more. */
    SMALL_RECORDS = 40,                /* Two or three round trips of a window that begins with ten segments. */
    SMALL_OVERHEAD = 29,               /* Header, nonce and tag of TLS 1.2; more than TLS 1.3's. */
    SMALL_SEGMENT = 4096,              /* Longer ones are not sent through the internet. */
    IDLE = 1000,                       /* Milliseconds after which the kernel has begun a new window, about. */
    EXTRA_OPEN = 16384,                /* Unsent replies to a peer's messages: beyond that it floods us. */
    EXTRA_HANDSHAKE = 1 << 20,         /* A flight with the longest chain that anybody would send. */
    WRITING_FILE = 2,                  /* Of `writing`: until the whole file is sent, nothing else can be. */
    CONTROL_KEYS = 72                  /* Keys of a direction (1: writing). The header <openssl/bio.h> has it in a comment. */
};

static atomic_llong live;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method;

int64_t heddle_tls_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec;
}

int64_t heddle_tls_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }

/* The first error of the thread's queue, which is the cause; the others are what it led to. */
void heddle_tls_say(char text[256], const char *fallback)
{
    const char *data = NULL;
    int flags = 0;
    unsigned long e = ERR_get_error_all(NULL, NULL, NULL, &data, &flags);
    const char *reason = e ? ERR_reason_error_string(e) : NULL;
    if (!reason) reason = fallback;
    if ((flags & ERR_TXT_STRING) && data && *data && strlen(data) < 100)
        snprintf(text, 256, "%s (%s)", reason, data);
    else
        snprintf(text, 256, "%s", reason);
    ERR_clear_error();
}

/* MSG_DONTWAIT: neither ever sleeps. Not recv() and send(), which are cancellation points. */
static long receive(int fd, void *p, size_t n)
{
    long r;
    do r = syscall(SYS_recvfrom, fd, p, n, MSG_DONTWAIT, NULL, NULL); while (r < 0 && errno == EINTR);
    return r < 0 ? -(long)errno : r;
}

static long transmit(int fd, const void *p, size_t n)
{
    long r;
    do r = syscall(SYS_sendto, fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0); while (r < 0 && errno == EINTR);
    return r < 0 ? -(long)errno : r;
}

static int bio_read(BIO *b, char *p, size_t n, size_t *got)
{
    heddle_tls_conn *c = BIO_get_data(b);
    *got = 0;
    BIO_clear_retry_flags(b);
    if (c->first) {
        size_t m = c->first_n - c->first_used;
        if (m > n) m = n;
        memcpy(p, c->first + c->first_used, m);
        c->first_used += m;
        if (c->first_used == c->first_n) { OPENSSL_free(c->first); c->first = NULL; }
        *got = m;
        return 1;
    }
    /* libssl reads on until it has content, so a peer that sends none would keep the caller's capability for ever. To stop
       and go on later (without SSL_MODE_AUTO_RETRY) would lose the edges of what libssl has buffered. */
    if (c->open && c->taken > READ_BUDGET) c->why = "too many records without content";
    if (c->open && c->why) {
        c->read_errno = EPROTO;
        return -1;
    }
    long r = receive(c->fd, p, n);
    if (r > 0) {
        c->taken += (size_t)r;
        c->drained = (size_t)r < n;
        *got = (size_t)r;
        return 1;
    }
    if (r == 0) {
        c->ended = 1;
        return 0;
    }
    if (r == -EAGAIN) {
        c->drained = 1;
        BIO_set_retry_read(b);
    } else
        c->read_errno = (int)-r;
    return -1;
}

/* Always takes everything, so that libssl never has to be called again with the same bytes. */
static int bio_write(BIO *b, const char *p, size_t n, size_t *taken)
{
    heddle_tls_conn *c = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    *taken = 0;
    /* An alert, or an answer to new keys, with keys that the kernel uses now; on_message ends sessions that need the answer. */
    if (c->kernel) {
        *taken = n;
        return 1;
    }
    heddle_tls_keys_used(c, (const uint8_t *)p, n);
    if (c->out) {
        if (c->out_room - c->out_n < n) return -1;
        memcpy(c->out + c->out_n, p, n);
        c->out_n += n;
        *taken = n;
        return 1;
    }
    if (c->extra_n + n > (size_t)(c->open ? EXTRA_OPEN : EXTRA_HANDSHAKE)) return -1;
    if (c->extra_n + n > c->extra_room) {
        size_t room = c->extra_n + n < 2048 ? 2048 : (c->extra_n + n) * 2;
        uint8_t *more = OPENSSL_realloc(c->extra, room);
        if (!more) return -1;
        c->extra = more;
        c->extra_room = room;
    }
    memcpy(c->extra + c->extra_n, p, n);
    c->extra_n += n;
    *taken = n;
    return 1;
}

static long bio_control(BIO *b, int what, long n, void *p)
{
    heddle_tls_conn *c = BIO_get_data(b);
    switch (what) {
    /* 0: libssl goes on with them. */
    case CONTROL_KEYS:
        if (n && p && c) heddle_tls_keys_offered(c, p);
        return 0;
    case BIO_CTRL_FLUSH: return 1;
    case BIO_CTRL_EOF: return c && c->ended;
    default: return 0;
    }
}

static int bio_create(BIO *b)
{
    BIO_set_init(b, 1);
    return 1;
}

static void make_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "heddle");
    if (!m) return;
    BIO_meth_set_read_ex(m, bio_read);
    BIO_meth_set_write_ex(m, bio_write);
    BIO_meth_set_ctrl(m, bio_control);
    BIO_meth_set_create(m, bio_create);
    method = m;
}

static void enter(heddle_tls_conn *c, int fd)
{
    ERR_clear_error();
    c->fd = fd;
    c->read_errno = 0;
    c->taken = 0;
}

/* Messages of an open session change keys, bring tickets, or ask for what is refused. Those that are buffered are still read
   when the limit is reached: at most 16 KB. */
static void on_message(int write, int version, int type, const void *p, size_t n, SSL *ssl, void *arg)
{
    (void)version;
    heddle_tls_conn *c = arg;
    if (write && type == SSL3_RT_HANDSHAKE && n && *(const uint8_t *)p == SSL3_MT_SERVER_HELLO) heddle_tls_keys_wanted(c, ssl);
    if (type == SSL3_RT_HANDSHAKE && n > 4 && *(const uint8_t *)p == SSL3_MT_KEY_UPDATE) {
        /* Ours, or one that ours will answer. The keys that are kept are for records before it. */
        if (write || ((const uint8_t *)p)[4] == SSL_KEY_UPDATE_REQUESTED) {
            if (c->kernel) c->why = "new keys were asked for, which the kernel cannot change";
            heddle_tls_keys_drop(c);
        }
    }
    if (write || type != SSL3_RT_HANDSHAKE || !c->open) return;
    if (++c->empty > EMPTY_MESSAGES) c->why = "too many records without content";
}

static void drop_extra(heddle_tls_conn *c)
{
    OPENSSL_free(c->extra);
    c->extra = NULL;
    c->extra_n = c->extra_room = c->extra_sent = 0;
}

/* Send what other calls than write have made; 1 when nothing is left. Not while a write is half sent: its records come
   first. */
static int flush(heddle_tls_conn *c)
{
    if (!c->extra_n) return 1;
    if (c->writing) return 0;
    while (c->extra_sent < c->extra_n) {
        long r = transmit(c->fd, c->extra + c->extra_sent, c->extra_n - c->extra_sent);
        if (r == -EAGAIN) return 0;
        if (r < 0) {
            c->write_errno = (int)-r;
            c->dead = 1;
            break;
        }
        c->extra_sent += (size_t)r;
    }
    drop_extra(c);
    return 1;
}

int heddle_tls_flushed(heddle_tls_conn *c, int fd)
{
    enter(c, fd);
    return flush(c);
}

static heddle_tls_conn *make(heddle_tls_site *site, heddle_tls_shared *shared)
{
    ERR_clear_error();
    pthread_once(&once, make_method);
    heddle_tls_conn *c = OPENSSL_zalloc(sizeof *c);
    if (!c) return NULL;
    BIO *b = method ? BIO_new(method) : NULL;
    c->ssl = b ? SSL_new(site->entries[0].ctx) : NULL;
    if (!c->ssl) {
        BIO_free(b);
        OPENSSL_free(c);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(b, c);
    SSL_set_bio(c->ssl, b, b);
    SSL_set_app_data(c->ssl, c);
    SSL_set_msg_callback(c->ssl, on_message);
    SSL_set_msg_callback_arg(c->ssl, c);
    c->site = site;
    c->fd = -1;
    c->full_at = heddle_tls_now();
    c->written_at = -IDLE - 1;
    c->face.heavy = site->rsa;
    atomic_fetch_add_explicit(&site->refs, 1, memory_order_relaxed);
    c->shared = shared;
    if (shared) heddle_tls_shared_hold(shared);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return c;
}

heddle_tls_conn *heddle_tls_accept(heddle_tls_site *site, heddle_tls_shared *shared, const uint8_t *first, size_t n)
{
    heddle_tls_conn *c = make(site, shared);
    if (!c) return NULL;
    if (n) {
        c->first = OPENSSL_malloc(n);
        if (!c->first) { heddle_tls_free(c); return NULL; }
        memcpy(c->first, first, n);
        c->first_n = n;
    }
    SSL_set_accept_state(c->ssl);
    return c;
}

heddle_tls_conn *heddle_tls_connect(heddle_tls_site *site, const char *host, void *session)
{
    heddle_tls_conn *c = make(site, NULL);
    if (!c) return NULL;
    int ok = 1;
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
    int is_address = address != NULL;
    ASN1_OCTET_STRING_free(address);
    ERR_clear_error();
    if (is_address) {
        if (!site->insecure) ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl), host);
    } else {
        ok = SSL_set_tlsext_host_name(c->ssl, host);
        if (ok && !site->insecure) {
            SSL_set_hostflags(c->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
            ok = SSL_set1_host(c->ssl, host);
        }
    }
    snprintf(c->name, sizeof c->name, "%s", is_address ? "" : host);
    if (ok && session) ok = SSL_set_session(c->ssl, session);
    if (!ok) { heddle_tls_free(c); ERR_clear_error(); return NULL; }
    SSL_set_connect_state(c->ssl);
    return c;
}

int heddle_tls_on_session(SSL *ssl, SSL_SESSION *session)
{
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    if (!c || !SSL_SESSION_is_resumable(session)) return 0;
    SSL_SESSION_free(c->session);
    c->session = session;
    return 1;
}

void *heddle_tls_take_session(heddle_tls_conn *c)
{
    SSL_SESSION *s = c->session;
    c->session = NULL;
    /* A resumed session of TLS 1.2 is as good as before; one of TLS 1.3 brings a new ticket. */
    if (!s && c->open && SSL_version(c->ssl) < TLS1_3_VERSION && SSL_session_reused(c->ssl)) s = SSL_get1_session(c->ssl);
    return s;
}

void heddle_tls_session_free(void *session) { SSL_SESSION_free(session); }

static long failed(heddle_tls_conn *c, const char *fallback)
{
    long verify = SSL_get_verify_result(c->ssl);
    c->dead = 1;
    if (c->why) {
        snprintf(c->face.text, sizeof c->face.text, "%s", c->why);
        ERR_clear_error();
    } else if (!c->open && verify != X509_V_OK) {
        snprintf(c->face.text, sizeof c->face.text, "the peer's certificate was refused: %s", X509_verify_cert_error_string(verify));
        ERR_clear_error();
    } else
        heddle_tls_say(c->face.text, fallback);
    return -EPROTO;
}

long heddle_tls_handshake(heddle_tls_conn *c, int fd)
{
    enter(c, fd);
    c->drained = 0;
    if (c->open) return flush(c) ? HEDDLE_TLS_DONE : HEDDLE_TLS_UNSENT;
    if (!flush(c)) return HEDDLE_TLS_UNSENT;
    if (c->write_errno) return -c->write_errno;
    int r = SSL_do_handshake(c->ssl);
    if (r == 1) {
        /* Nobody waits for tickets: they travel with the first reply. */
        int later = c->shared && SSL_version(c->ssl) == TLS1_3_VERSION && c->extra_n <= EXTRA_OPEN / 2;
        if (c->shared) heddle_tls_shared_count(c->shared, SSL_session_reused(c->ssl) ? 1 : 0);
        c->open = 1;
        c->face.heavy = 0;
        c->face.holds = SSL_has_pending(c->ssl) || c->first || !c->drained;
        heddle_tls_site_release(c->site);
        c->site = NULL;
        return later || flush(c) ? HEDDLE_TLS_DONE : HEDDLE_TLS_UNSENT;
    }
    int e = SSL_get_error(c->ssl, r);
    if (e == SSL_ERROR_WANT_READ) {
        /* A server's flight with its signature is longer than a request to try again. */
        if (c->shared && (SSL_session_reused(c->ssl) || c->extra_n > 600)) c->face.heavy = 0;
        return flush(c) ? (c->write_errno ? -c->write_errno : -EAGAIN) : HEDDLE_TLS_UNSENT;
    }
    if (c->shared) heddle_tls_shared_count(c->shared, 2);
    int read_errno = c->read_errno;
    flush(c);
    if (read_errno) { c->dead = 1; return -read_errno; }
    return failed(c, c->ended ? "the peer ended the connection" : "the handshake failed");
}

long heddle_tls_flush(heddle_tls_conn *c, int fd)
{
    enter(c, fd);
    return flush(c) ? 1 : -EAGAIN;
}

long heddle_tls_read(heddle_tls_conn *c, int fd, uint8_t *p, size_t n, int fresh)
{
    size_t got = 0;
    enter(c, fd);
    if (fresh) c->drained = 0;
    int r = SSL_read_ex(c->ssl, p, n, &got);
    if (c->open && c->why) {
        c->face.holds = 0;
        return failed(c, "");
    }
    if (r == 1) {
        c->empty = 0;
        if (c->extra_n && c->extra_n <= RECORD) flush(c);
        c->face.holds = SSL_has_pending(c->ssl) || c->first || !c->drained;
        return (long)got;
    }
    int e = SSL_get_error(c->ssl, r), read_errno = c->read_errno;
    c->face.holds = 0;
    flush(c);
    if (e == SSL_ERROR_WANT_READ) return -EAGAIN;
    if (e == SSL_ERROR_ZERO_RETURN) { ERR_clear_error(); return 0; }
    if (read_errno) { c->dead = 1; ERR_clear_error(); return -read_errno; }
    /* To a client an end without a farewell is a failure: anyone on the way can send it. */
    if (c->ended && c->shared && (e == SSL_ERROR_SYSCALL || !ERR_peek_error())) { ERR_clear_error(); return 0; }
    return failed(c, c->ended ? "the peer ended the connection without a farewell" : "a record is broken");
}

/* How long the next record may be, given how much there is to send. A peer decrypts whole records, so one that is longer than
   the window of a new connection, or of one that was idle, keeps it waiting for a round trip. The first records fit a
   segment each; then the window is large, and long records cost less. */
static size_t record_size(heddle_tls_conn *c, size_t n)
{
    struct timespec t;
    if (n <= SMALL_SEGMENT / 4) return RECORD;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    int64_t now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    if (now - c->written_at > IDLE) {
        int segment = 0;
        socklen_t size = sizeof segment;
        /* Sockets of another family have no segments, and those of the loopback have long ones. */
        int known = getsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &size) == 0 && segment > 2 * SMALL_OVERHEAD;
        c->small = known && segment <= SMALL_SEGMENT ? SMALL_RECORDS : 0;
        c->small_size = segment - SMALL_OVERHEAD;
    }
    c->written_at = now;
    if (!c->small) return RECORD;
    c->small--;
    return (size_t)c->small_size;
}

long heddle_tls_write(heddle_tls_conn *c, int fd, const uint8_t *p, size_t n, uint8_t *out, size_t room)
{
    size_t done = 0;
    enter(c, fd);
    c->face.made = c->face.sent = 0;
    if (c->write_errno) return -c->write_errno;
    if (c->writing || c->dead || c->closing) return -EPIPE;
    c->out = out;
    c->out_room = room;
    c->out_n = c->extra_n - c->extra_sent;
    if (c->out_n) {
        if (c->out_n + RECORD_ROOM > room) { c->out = NULL; c->dead = 1; return -EPIPE; }
        memcpy(out, c->extra + c->extra_sent, c->out_n);
        drop_extra(c);
    }
    while (done < n && room - c->out_n >= RECORD_ROOM) {
        size_t most = record_size(c, n - done), m = n - done < most ? n - done : most, w = 0;
        if (SSL_write_ex(c->ssl, p + done, m, &w) != 1) break;
        done += w;
    }
    c->out = NULL;
    if (!done && n) return failed(c, "a record could not be made");
    c->face.made = (int64_t)c->out_n;
    long r = transmit(fd, out, c->out_n);
    if (r < 0 && r != -EAGAIN) {
        c->write_errno = (int)-r;
        c->dead = 1;
        return r;
    }
    c->face.sent = r < 0 ? 0 : r;
    c->writing = c->face.sent < c->face.made;
    return (long)done;
}

long heddle_tls_kernel_write(heddle_tls_conn *c, int fd, const uint8_t *p, size_t n)
{
    if (c->dead || c->closing || c->writing == WRITING_FILE) return -EPIPE;
    long r = transmit(fd, p, n);
    c->writing = r < (long)n;
    if (r < 0 && r != -EAGAIN) c->dead = 1;
    return r;
}

long heddle_tls_kernel_file(heddle_tls_conn *c, int fd)
{
    (void)fd;
    if (c->dead || c->closing || c->writing) return -EPIPE;
    c->writing = WRITING_FILE;
    return 0;
}

long heddle_tls_written(heddle_tls_conn *c, int fd)
{
    enter(c, fd);
    c->writing = 0;
    flush(c);
    return c->write_errno ? -c->write_errno : 0;
}

long heddle_tls_end(heddle_tls_conn *c, int fd)
{
    enter(c, fd);
    if (!c->open || c->dead || c->writing || c->closing) return 0;
    c->closing = 1;
    if (c->kernel) heddle_tls_kernel_farewell(c);
    SSL_shutdown(c->ssl);
    flush(c);
    ERR_clear_error();
    return 0;
}

void heddle_tls_free(heddle_tls_conn *c)
{
    ERR_clear_error();
    /* Not an error of the session that the next one would be refused for. */
    if (c->open) SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(c->ssl);
    SSL_SESSION_free(c->session);
    if (c->site) heddle_tls_site_release(c->site);
    if (c->shared) heddle_tls_shared_release(c->shared);
    OPENSSL_free(c->extra);
    OPENSSL_free(c->first);
    heddle_tls_keys_drop(c);
    OPENSSL_free(c);
    ERR_clear_error();
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

static size_t put(const void *from, size_t n, uint8_t *p, size_t room)
{
    if (n > room) n = room;
    if (n) memcpy(p, from, n);
    return n;
}

size_t heddle_tls_fact(heddle_tls_conn *c, int which, uint8_t *p, size_t n)
{
    ERR_clear_error();
    switch (which) {
    case HEDDLE_TLS_VERSION: {
        const char *v = SSL_get_version(c->ssl);
        return put(v, strlen(v), p, n);
    }
    case HEDDLE_TLS_CIPHER: {
        const SSL_CIPHER *cipher = SSL_get_current_cipher(c->ssl);
        const char *v = cipher ? SSL_CIPHER_standard_name(cipher) : NULL;
        return v ? put(v, strlen(v), p, n) : 0;
    }
    case HEDDLE_TLS_ALPN: {
        const unsigned char *v = NULL;
        unsigned m = 0;
        SSL_get0_alpn_selected(c->ssl, &v, &m);
        return put(v, m, p, n);
    }
    case HEDDLE_TLS_NAME: return put(c->name, strlen(c->name), p, n);
    case HEDDLE_TLS_PEER: {
        X509 *x = SSL_get0_peer_certificate(c->ssl);
        unsigned char *der = NULL;
        int m = x ? i2d_X509(x, &der) : 0;
        size_t r = m > 0 && (size_t)m <= n ? put(der, (size_t)m, p, n) : 0;
        OPENSSL_free(der);
        ERR_clear_error();
        return r;
    }
    default: return 0;
    }
}
