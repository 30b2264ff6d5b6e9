/*
 * Stateless session tickets: nothing is stored per session, and no lock is taken but at a change of keys.
 *
 * The secret of period n + 1 is the SHA-256 of the secret of period n, which is then wiped: a later reader of the memory
 * cannot decrypt earlier tickets. Key n is derived from secret n. Tickets are made with the key of the present period and
 * accepted with those of the three periods before it and of the next one, which another process may have reached.
 */
#include "heddle_tls_internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ACCEPTED = 4, RING = 8, CHAIN_SECONDS = 24 * 3600, STEPS = 1024 };

/* Where the chain of a secret that several processes share begins. */
static const int64_t ORIGIN = 1704067200;

struct ticket_key {
    uint8_t name[16], cipher[32], mac[32];
};

struct heddle_tls_shared {
    atomic_long refs;
    pthread_mutex_t lock;              /* Guards what follows it up to `keys`; held for microseconds, once a period (0.5 ms after a jump of the clock). */
    uint8_t secret[32];                /* Of period `made` + 1. */
    int64_t made;                      /* The last period that has a key. */
    int64_t period, ahead;             /* In seconds; and periods that were forced. */
    atomic_llong present;
    struct ticket_key keys[RING];      /* By period; a slot is written again after RING periods. */
    int kernel;
    atomic_llong counts[HEDDLE_TLS_COUNTS];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_CIPHER *aes;

static void fetch(void) { aes = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL); }

/* The secret of the next period, and the key of this one if it is among those that are kept. */
static void derive(struct heddle_tls_shared *t, int keep)
{
    uint8_t m[64];
    unsigned n = 0;
    struct ticket_key *k = &t->keys[(t->made + 1) & (RING - 1)];
    uint8_t *to[3] = { k->name, k->cipher, k->mac };
    size_t sizes[3] = { 16, 32, 32 };
    for (int i = 0; keep && i < 3; i++) {
        /* HKDF-Expand with one block for each part. */
        uint8_t info[] = "heddle ticket key 0\1";
        info[18] = (uint8_t)('0' + i);
        HMAC(EVP_sha256(), t->secret, 32, info, sizeof info - 1, m, &n);
        memcpy(to[i], m, sizes[i]);
    }
    EVP_Digest(t->secret, 32, m, NULL, EVP_sha256(), NULL);
    memcpy(t->secret, m, 32);
    OPENSSL_cleanse(m, sizeof m);
    t->made++;
}

/* A clock that is before the origin is wrong; a negative period would have no key. */
static int64_t period_now(const struct heddle_tls_shared *t)
{
    int64_t since = heddle_tls_now() - ORIGIN;
    return since < 0 ? 0 : since / t->period;
}

/* Keys up to that of the next period, but no more than the given number of steps; the period that was reached. */
static int64_t advance(struct heddle_tls_shared *t, int64_t present, int64_t most)
{
    int64_t last = present + 1 - t->made > most ? t->made + most : present + 1;
    while (t->made < last) derive(t, last - t->made <= RING);
    atomic_store_explicit(&t->present, t->made - 1, memory_order_release);
    return t->made - 1;
}

static int64_t current(struct heddle_tls_shared *t)
{
    int64_t n = period_now(t), seen = atomic_load_explicit(&t->present, memory_order_acquire);
    if (n + t->ahead <= seen) return seen;
    pthread_mutex_lock(&t->lock);
    seen = atomic_load_explicit(&t->present, memory_order_relaxed);
    /* After a jump of the clock over many periods the next handshakes go on; until they are there, tickets are not shared. */
    if (n + t->ahead > seen) seen = advance(t, n + t->ahead, STEPS);
    pthread_mutex_unlock(&t->lock);
    return seen;
}

heddle_tls_shared *heddle_tls_shared_new(const uint8_t *secret, size_t secret_n, int64_t period, int kernel)
{
    ERR_clear_error();
    pthread_once(&once, fetch);
    heddle_tls_shared *t = OPENSSL_zalloc(sizeof *t);
    if (!t) return NULL;
    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    int ok = secret_n ? EVP_Digest(secret, secret_n, t->secret, NULL, EVP_sha256(), NULL) : RAND_priv_bytes(t->secret, 32);
    if (ok != 1) {
        heddle_tls_shared_release(t);
        return NULL;
    }
    t->period = period < 1 ? 1 : period;
    t->kernel = kernel;
    int64_t now = period_now(t);
    t->made = (secret_n ? 0 : now - ACCEPTED) - 1;
    advance(t, now, INT64_MAX);
    return t;
}

void heddle_tls_shared_rotate(heddle_tls_shared *t)
{
    pthread_mutex_lock(&t->lock);
    t->ahead++;
    advance(t, atomic_load_explicit(&t->present, memory_order_relaxed) + 1, STEPS);
    pthread_mutex_unlock(&t->lock);
}

void heddle_tls_shared_hold(heddle_tls_shared *t) { atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed); }

void heddle_tls_shared_release(heddle_tls_shared *t)
{
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&t->lock);
    OPENSSL_cleanse(t, sizeof *t);
    OPENSSL_free(t);
}

void heddle_tls_shared_count(heddle_tls_shared *t, int which) { atomic_fetch_add_explicit(&t->counts[which], 1, memory_order_relaxed); }

int heddle_tls_shared_kernel(const heddle_tls_shared *t) { return t->kernel; }

void heddle_tls_shared_counts(heddle_tls_shared *t, int64_t counts[HEDDLE_TLS_COUNTS])
{
    for (int i = 0; i < HEDDLE_TLS_COUNTS; i++) counts[i] = atomic_load_explicit(&t->counts[i], memory_order_relaxed);
}

int heddle_tls_on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int making)
{
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    if (!c || !c->shared || !aes) return making ? -1 : 0;
    int64_t now = current(c->shared), n = now;
    if (making) {
        memcpy(name, c->shared->keys[n & (RING - 1)].name, 16);
        if (RAND_bytes(iv, EVP_MAX_IV_LENGTH) != 1) return -1;
    } else {
        for (n = now + 1; n > now - ACCEPTED; n--)
            if (n >= 0 && !CRYPTO_memcmp(c->shared->keys[n & (RING - 1)].name, name, 16)) break;
        if (n <= now - ACCEPTED) return 0;
    }
    struct ticket_key *k = &c->shared->keys[n & (RING - 1)];
    OSSL_PARAM with[3] = { OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k->mac, 32),
                           OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0), OSSL_PARAM_construct_end() };
    if (!EVP_MAC_CTX_set_params(mac, with)) return -1;
    if (making) return EVP_EncryptInit_ex(cipher, aes, NULL, k->cipher, iv) ? 1 : -1;
    if (!EVP_DecryptInit_ex(cipher, aes, NULL, k->cipher, iv)) return -1;
    return n == now ? 1 : 2;
}

/* A ticket carries the time of the full handshake, so that tickets for tickets end a day after it. */
int heddle_tls_on_ticket_made(SSL *ssl, void *arg)
{
    (void)arg;
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    SSL_SESSION *s = SSL_get_session(ssl);
    return c && s && SSL_SESSION_set1_ticket_appdata(s, &c->full_at, sizeof c->full_at);
}

SSL_TICKET_RETURN heddle_tls_on_ticket_read(SSL *ssl, SSL_SESSION *s, const unsigned char *name, size_t name_n, SSL_TICKET_STATUS status, void *arg)
{
    (void)name;
    (void)name_n;
    (void)arg;
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    void *data = NULL;
    size_t n = 0;
    if (status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT) return SSL_TICKET_RETURN_IGNORE_RENEW;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) return SSL_TICKET_RETURN_ABORT;
    int64_t full_at = 0, now = heddle_tls_now();
    if (!c || !s || !SSL_SESSION_get0_ticket_appdata(s, &data, &n) || n != sizeof full_at) return SSL_TICKET_RETURN_IGNORE_RENEW;
    memcpy(&full_at, data, sizeof full_at);
    if (now - full_at >= CHAIN_SECONDS || full_at > now + 60) return SSL_TICKET_RETURN_IGNORE_RENEW;
    c->full_at = full_at;
    /* A client of TLS 1.3 uses a ticket once, so it gets another. */
    return status == SSL_TICKET_SUCCESS_RENEW || SSL_version(ssl) >= TLS1_3_VERSION ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}
