/*
 * The shim between Heddle and libssl: contexts (sites), tickets, sessions.
 *
 * Rules of every function here: it never sleeps, except where its comment says so; it empties the thread's error queue
 * before it calls libssl and returns code and text itself, because the next call of the same Haskell thread may run in
 * another thread of the system. A session is used by one call at a time: the caller locks it.
 */
#ifndef HEDDLE_TLS_H
#define HEDDLE_TLS_H

#include <stddef.h>
#include <stdint.h>

typedef struct heddle_tls_site heddle_tls_site;
typedef struct heddle_tls_shared heddle_tls_shared;
typedef struct heddle_tls_conn heddle_tls_conn;

/* What is wrong with a certificate, a key or another file. */
enum heddle_tls_problem {
    HEDDLE_TLS_FINE = 0,
    HEDDLE_TLS_NO_CERTIFICATE = 1,     /* The file has none. */
    HEDDLE_TLS_BAD_CERTIFICATE = 2,    /* Number `index` of the file cannot be read; `text` says why. */
    HEDDLE_TLS_NO_KEY = 3,
    HEDDLE_TLS_BAD_KEY = 4,
    HEDDLE_TLS_ENCRYPTED_KEY = 5,
    HEDDLE_TLS_MISMATCH = 6,           /* The key belongs to another certificate. */
    HEDDLE_TLS_NOT_YET = 7,            /* Number `index` is valid from `from` on. */
    HEDDLE_TLS_EXPIRED = 8,            /* Number `index` was valid until `until`. */
    HEDDLE_TLS_ORDER = 9,              /* Number `index` was not issued by the one after it. */
    HEDDLE_TLS_REFUSED = 10,           /* libssl does not take it; `text` says why. */
    HEDDLE_TLS_BAD_STAPLE = 11,
    HEDDLE_TLS_NO_NAME = 12            /* No client would ever be given this certificate. */
};

struct heddle_tls_report {
    int32_t code;
    int32_t index;                     /* From 1 on. */
    int64_t from, until;               /* Of the first certificate, or of number `index`; seconds since 1970. */
    int64_t names;                     /* How many bytes of names were written. */
    int32_t rsa;                       /* The key is an RSA key: signing takes a while. */
    char text[256];
};

enum {
    HEDDLE_TLS_SERVER = 1,             /* Flags of heddle_tls_site_new. */
    HEDDLE_TLS_STRICT = 2,
    HEDDLE_TLS_INSECURE = 4
};

/* Load libssl, unless it has been loaded: before any other function here. 0; or -1, with a text. Sleeps: reads files. */
int heddle_tls_load(char text[256]);

/* Sites: immutable once sessions use them. Making one reads no file; parsing large chains takes milliseconds. */
heddle_tls_site *heddle_tls_site_new(int flags, int lowest, int highest, int clients);
int heddle_tls_site_alpn(heddle_tls_site *, const uint8_t *list, size_t n);
int heddle_tls_site_tuning(heddle_tls_site *, const char *ciphers, const char *suites, const char *groups, char *text);
/* Certificates that peers' certificates must lead to. */
int heddle_tls_site_authorities(heddle_tls_site *, const uint8_t *pem, size_t n, struct heddle_tls_report *);
/* The system's; reads files. */
int heddle_tls_site_roots(heddle_tls_site *, struct heddle_tls_report *);
/* A certificate with its key and, perhaps, an OCSP answer. Its names go to `names`, each ended by a zero byte. */
int heddle_tls_site_add(heddle_tls_site *, const uint8_t *chain, size_t chain_n, const uint8_t *key, size_t key_n,
                        const uint8_t *staple, size_t staple_n, int64_t now, char *names, size_t names_n,
                        struct heddle_tls_report *);
/* Last call: a client's site without a certificate gets its context; 0, or -1. */
int heddle_tls_site_finish(heddle_tls_site *);
void heddle_tls_site_release(heddle_tls_site *);

/* What the sessions of one listener share: ticket keys, which change by themselves, and counters. Listeners with the
   same secret have the same keys; without one (n is 0) it is drawn at random. `kernel`: sessions may be given to it. */
heddle_tls_shared *heddle_tls_shared_new(const uint8_t *secret, size_t n, int64_t period, int kernel);
void heddle_tls_shared_rotate(heddle_tls_shared *);
/* Full handshakes, resumed ones, failed ones; sessions that the kernel has been given. */
void heddle_tls_shared_counts(heddle_tls_shared *, int64_t counts[4]);
void heddle_tls_shared_release(heddle_tls_shared *);

/* Answers of sessions, besides counts and minus an error number. -EPROTO: the text says what happened. */
enum { HEDDLE_TLS_DONE = 1, HEDDLE_TLS_UNSENT = 2 };

/* The beginning of a session, for callers that peek. */
struct heddle_tls_face {
    int64_t holds;                     /* 1: input was received that can be read now. */
    int64_t made;                      /* heddle_tls_write: bytes put into `out`… */
    int64_t sent;                      /* …and how many of them were sent. */
    int64_t heavy;                     /* 1: the next step of the handshake may sign. */
    char text[256];                    /* Why the last call failed. */
};

/* `first`: bytes that were received already. For a client: the server's name, or its address as text, and a session to
   resume. NULL when memory has run out. */
heddle_tls_conn *heddle_tls_accept(heddle_tls_site *, heddle_tls_shared *, const uint8_t *first, size_t n);
heddle_tls_conn *heddle_tls_connect(heddle_tls_site *, const char *host, void *session);
long heddle_tls_handshake(heddle_tls_conn *, int fd);
long heddle_tls_flush(heddle_tls_conn *, int fd);
/* `fresh`: the caller has dropped the token of an earlier readiness. */
long heddle_tls_read(heddle_tls_conn *, int fd, uint8_t *p, size_t n, int fresh);
long heddle_tls_write(heddle_tls_conn *, int fd, const uint8_t *p, size_t n, uint8_t *out, size_t room);
/* After what heddle_tls_write made was sent. */
long heddle_tls_written(heddle_tls_conn *, int fd);
/* Whether the kernel can encrypt. Sleeps: the kernel may load a module. */
int heddle_tls_kernel_has(void);
/* Let the kernel encrypt what is written from now on. 1: it does; 0: not yet; -1: it never will. Sleeps: the kernel may load a
   cipher. */
int heddle_tls_to_kernel(heddle_tls_conn *, int fd);
/* Then, in the place of heddle_tls_write: a count, or minus an error number. */
long heddle_tls_kernel_write(heddle_tls_conn *, int fd, const uint8_t *p, size_t n);
/* Before a file is sent to the socket; heddle_tls_written follows if all of it was. */
long heddle_tls_kernel_file(heddle_tls_conn *, int fd);
long heddle_tls_end(heddle_tls_conn *, int fd);
void heddle_tls_free(heddle_tls_conn *);
/* A client's session for resumption, or NULL; the caller frees it. */
void *heddle_tls_take_session(heddle_tls_conn *);
void heddle_tls_session_free(void *session);
int64_t heddle_tls_live(void);

/* Facts of an open session; what does not fit is cut off. */
size_t heddle_tls_fact(heddle_tls_conn *, int which, uint8_t *p, size_t n);
enum { HEDDLE_TLS_VERSION = 0, HEDDLE_TLS_CIPHER = 1, HEDDLE_TLS_ALPN = 2, HEDDLE_TLS_NAME = 3, HEDDLE_TLS_PEER = 4 };

/* A certificate for development. `names` is the text of a subjectAltName extension. 0, or -1 with a text. */
int heddle_tls_self_signed(const char *common, const char *names, int days, uint8_t *certificate, size_t *certificate_n,
                           uint8_t *key, size_t *key_n, char *text);

/* The subject of a certificate in DER, as RFC 2253 writes it, in at most this many bytes: how many, or -1 if it cannot be read. */
int heddle_tls_subject(const uint8_t *der, size_t n, uint8_t *to, size_t room);

#endif
