/* What the files of the shim share. */
#ifndef HEDDLE_TLS_INTERNAL_H
#define HEDDLE_TLS_INTERNAL_H

#include "heddle_tls.h"
#include "heddle_openssl.h"
#include <stdatomic.h>

enum { HEDDLE_TLS_KEYS = 56, HEDDLE_TLS_COUNTS = 4, HEDDLE_TLS_COUNT_KERNEL = 3 };

/* One certificate of a site. */
struct heddle_tls_entry {
    SSL_CTX *ctx;
    uint8_t *staple;
    size_t staple_n;
    int64_t staple_until;              /* An answer is not sent after that; 0: it has no end. */
};

/* A name, lower case, of a site. */
struct heddle_tls_name {
    char *name;
    uint32_t hash;
    int entry;
};

struct heddle_tls_site {
    atomic_long refs;                  /* The owner, and each session until its handshake is over. */
    int server, strict, insecure, lowest, highest, clients;
    uint8_t *alpn;
    size_t alpn_n;
    char *ciphers, *suites, *groups;
    X509_STORE *store;
    STACK_OF(X509_NAME) *accepted;
    uint8_t context_id[32];
    int rsa;
    struct heddle_tls_entry *entries;
    int entry_count;
    struct heddle_tls_name *names;     /* A hash table with open addressing, at most half full. */
    int name_count, name_room;
};

struct heddle_tls_conn {
    struct heddle_tls_face face;       /* Must be first. */
    SSL *ssl;
    heddle_tls_site *site;             /* NULL when the handshake is over. */
    heddle_tls_shared *shared;         /* NULL for clients. */
    int fd;                            /* Of the call in progress. */
    int drained;                       /* The last receive found less than it had room for. */
    int ended;                         /* The peer has ended its direction. */
    int open, dead, closing, defer;
    int kernel;                        /* The kernel encrypts what is written: see heddle_tls_kernel.c. */
    int writing;                       /* What a write has made, or was given for the kernel, is not all sent. */
    int read_errno, write_errno;
    size_t taken;                      /* Received by the call in progress. */
    int empty;                         /* Messages of the open session since content was last read. */
    int64_t full_at;                   /* When the full handshake was that this session goes back to. */
    SSL_SESSION *session;              /* A client's, to be resumed by the next. */
    uint8_t *out;                      /* Where records go during heddle_tls_write. */
    size_t out_n, out_room;
    uint8_t *extra;                    /* Records of other calls that are not sent. */
    size_t extra_n, extra_room, extra_sent;
    uint8_t *first;                    /* Bytes received before the session was made. */
    size_t first_n, first_used;
    const char *why;                   /* Why we refuse the handshake, or the open session. */
    char name[256];                    /* What the client asked for. */
    int64_t written_at;                /* When more than a short record was last written, in milliseconds. */
    int small, small_size;             /* How many short records follow, and how many plain bytes they have. */
    uint64_t records;                  /* Begun with the keys that follow… */
    size_t record_left;                /* …of the last one, the bytes that have not been written; without its header. */
    size_t head_n;                     /* Of the next one's header, what has been written. */
    uint8_t head[5];
    size_t keys_n;                     /* Keys that the kernel may be given; 0: none. */
    uint8_t keys[HEDDLE_TLS_KEYS];
};

void heddle_tls_say(char text[256], const char *fallback);
int heddle_tls_on_ticket(SSL *, unsigned char *, unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int);
int heddle_tls_on_ticket_made(SSL *, void *);
SSL_TICKET_RETURN heddle_tls_on_ticket_read(SSL *, SSL_SESSION *, const unsigned char *, size_t, SSL_TICKET_STATUS, void *);
int heddle_tls_on_session(SSL *, SSL_SESSION *);
void heddle_tls_shared_hold(heddle_tls_shared *);
void heddle_tls_shared_count(heddle_tls_shared *, int which);
int heddle_tls_shared_kernel(const heddle_tls_shared *);
int heddle_tls_flushed(heddle_tls_conn *, int fd);
void heddle_tls_keys_wanted(heddle_tls_conn *, SSL *);
void heddle_tls_keys_offered(heddle_tls_conn *, const void *keys);
void heddle_tls_keys_used(heddle_tls_conn *, const uint8_t *p, size_t n);
void heddle_tls_keys_drop(heddle_tls_conn *);
void heddle_tls_kernel_farewell(heddle_tls_conn *);
int heddle_tls_entry_for(const heddle_tls_site *, const char *name);
int64_t heddle_tls_now(void);

#endif
