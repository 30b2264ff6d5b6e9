/* Sites: certificates and keys are checked, contexts made, names found. */
#include "heddle_tls_internal.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

heddle_tls_site *heddle_tls_site_new(int flags, int lowest, int highest, int clients)
{
    heddle_tls_site *s = OPENSSL_zalloc(sizeof *s);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    s->server = !!(flags & HEDDLE_TLS_SERVER);
    s->strict = !!(flags & HEDDLE_TLS_STRICT);
    s->insecure = !!(flags & HEDDLE_TLS_INSECURE);
    s->lowest = lowest;
    s->highest = highest;
    s->clients = clients;
    return s;
}

void heddle_tls_site_release(heddle_tls_site *s)
{
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < s->entry_count; i++) {
        SSL_CTX_free(s->entries[i].ctx);
        OPENSSL_free(s->entries[i].staple);
    }
    for (int i = 0; i < s->name_room; i++) OPENSSL_free(s->names[i].name);
    X509_STORE_free(s->store);
    sk_X509_NAME_pop_free(s->accepted, X509_NAME_free);
    OPENSSL_free(s->entries);
    OPENSSL_free(s->names);
    OPENSSL_free(s->alpn);
    OPENSSL_free(s->ciphers);
    OPENSSL_free(s->suites);
    OPENSSL_free(s->groups);
    OPENSSL_free(s);
}

int heddle_tls_site_alpn(heddle_tls_site *s, const uint8_t *list, size_t n)
{
    if (!n) return 0;
    s->alpn = OPENSSL_malloc(n);
    if (!s->alpn) return -1;
    memcpy(s->alpn, list, n);
    s->alpn_n = n;
    return 0;
}

static int problem(struct heddle_tls_report *r, int code, int index, const char *fallback)
{
    r->code = code;
    r->index = index;
    heddle_tls_say(r->text, fallback);
    return -1;
}

/* Names ------------------------------------------------------------------------------------------------------------ */

static uint32_t hash_of(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

static int find(const heddle_tls_site *s, const char *name)
{
    if (!s->name_room) return -1;
    uint32_t h = hash_of(name);
    for (int i = (int)(h & (uint32_t)(s->name_room - 1)); s->names[i].name; i = (i + 1) & (s->name_room - 1))
        if (s->names[i].hash == h && !strcmp(s->names[i].name, name)) return s->names[i].entry;
    return -1;
}

static void insert(heddle_tls_site *s, char *name, uint32_t h, int entry)
{
    int i = (int)(h & (uint32_t)(s->name_room - 1));
    while (s->names[i].name) i = (i + 1) & (s->name_room - 1);
    s->names[i] = (struct heddle_tls_name){ name, h, entry };
    s->name_count++;
}

/* The first certificate that has a name keeps it. */
static int add_name(heddle_tls_site *s, const char *name, int entry)
{
    if (find(s, name) >= 0) return 0;
    if (s->name_count * 2 >= s->name_room) {
        int room = s->name_room, bigger = room ? room * 2 : 16;
        struct heddle_tls_name *old = s->names, *new = OPENSSL_zalloc((size_t)bigger * sizeof *new);
        if (!new) return -1;
        s->names = new;
        s->name_room = bigger;
        s->name_count = 0;
        for (int i = 0; i < room; i++)
            if (old[i].name) insert(s, old[i].name, old[i].hash, old[i].entry);
        OPENSSL_free(old);
    }
    char *copy = OPENSSL_strdup(name);
    if (!copy) return -1;
    insert(s, copy, hash_of(name), entry);
    return 0;
}

static int lower(char out[256], const char *name, size_t n)
{
    if (n && name[n - 1] == '.') n--;
    if (!n || n > 253) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!name[i]) return 0;
        out[i] = (char)tolower((unsigned char)name[i]);
    }
    out[n] = 0;
    return 1;
}

/* The entry for a name: the name itself, then a wildcard in the place of its first label; -1: none. */
int heddle_tls_entry_for(const heddle_tls_site *s, const char *name)
{
    char low[256];
    if (!lower(low, name, strlen(name))) return -1;
    if (low[0] == '*') return -1;
    int found = find(s, low);
    if (found >= 0) return found;
    char *dot = strchr(low, '.');
    if (!dot || dot == low) return -1;
    *--dot = '*';
    return find(s, dot);
}

/* Callbacks -------------------------------------------------------------------------------------------------------- */

static int on_name(SSL *ssl, int *alert, void *arg)
{
    (void)arg;
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!c || !c->site) return SSL_TLSEXT_ERR_NOACK;
    if (name) snprintf(c->name, sizeof c->name, "%s", name);
    int entry = name ? heddle_tls_entry_for(c->site, name) : -1;
    if (entry < 0) {
        if (!c->site->strict) return SSL_TLSEXT_ERR_NOACK;
        *alert = SSL_AD_UNRECOGNIZED_NAME;
        c->why = name ? "the client asks for a name that no certificate has" : "the client asks for no name";
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    /* All contexts of a site have the same options and authorities, so the certificate is all that changes. */
    if (entry > 0 && !SSL_set_SSL_CTX(ssl, c->site->entries[entry].ctx)) {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return SSL_TLSEXT_ERR_OK;
}

/* Ours in our order. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned in_n, void *arg)
{
    (void)arg;
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    if (!c || !c->site) return SSL_TLSEXT_ERR_NOACK;
    const uint8_t *ours = c->site->alpn;
    for (size_t i = 0; i < c->site->alpn_n; i += (size_t)ours[i] + 1)
        for (unsigned j = 0; j + 1 <= in_n && j + 1 + in[j] <= in_n; j += (unsigned)in[j] + 1)
            if (ours[i] == in[j] && !memcmp(ours + i + 1, in + j + 1, in[j])) {
                *out = in + j + 1;
                *out_n = in[j];
                return SSL_TLSEXT_ERR_OK;
            }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_status(SSL *ssl, void *arg)
{
    (void)arg;
    struct heddle_tls_entry *e = NULL;
    heddle_tls_conn *c = SSL_get_app_data(ssl);
    SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
    for (int i = 0; c && c->site && i < c->site->entry_count; i++)
        if (c->site->entries[i].ctx == ctx) e = &c->site->entries[i];
    if (!e || !e->staple || (e->staple_until && heddle_tls_now() >= e->staple_until)) return SSL_TLSEXT_ERR_NOACK;
    unsigned char *copy = OPENSSL_memdup(e->staple, e->staple_n);
    if (!copy) return SSL_TLSEXT_ERR_NOACK;
    if (!SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)e->staple_n)) {
        OPENSSL_free(copy);
        return SSL_TLSEXT_ERR_NOACK;
    }
    return SSL_TLSEXT_ERR_OK;
}

/* Contexts --------------------------------------------------------------------------------------------------------- */

/* Settings that apply to every certificate of the site. */
static SSL_CTX *context(const heddle_tls_site *s, char text[256])
{
    SSL_CTX *ctx = SSL_CTX_new(s->server ? TLS_server_method() : TLS_client_method());
    if (!ctx) goto bad;
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    /* Many clients leave the farewell out, and lose nothing by it. A client of any protocol could take a part for the whole. */
    if (s->server) SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_clear_options(ctx, SSL_OP_LEGACY_SERVER_CONNECT | SSL_OP_ALLOW_UNSAFE_LEGACY_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_security_level(ctx, 2);
    if (!SSL_CTX_set_min_proto_version(ctx, s->lowest) || !SSL_CTX_set_max_proto_version(ctx, s->highest)) goto bad;
    if (!SSL_CTX_set_cipher_list(ctx, s->ciphers ? s->ciphers
            : "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
              "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305")) goto bad;
    if (!SSL_CTX_set_ciphersuites(ctx, s->suites ? s->suites
            : "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256")) goto bad;
    if (s->groups) {
        if (!SSL_CTX_set1_groups_list(ctx, s->groups)) goto bad;
    } else if (!SSL_CTX_set1_groups_list(ctx, "X25519MLKEM768:X25519:P-256:P-384")) {
        /* OpenSSL before 3.5 has no post-quantum group. */
        ERR_clear_error();
        if (!SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384")) goto bad;
    }
    if (s->server) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_num_tickets(ctx, 2);
        SSL_CTX_set_timeout(ctx, 24 * 3600);
        SSL_CTX_set_max_early_data(ctx, 0);
        SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, heddle_tls_on_ticket);
        SSL_CTX_set_session_ticket_cb(ctx, heddle_tls_on_ticket_made, heddle_tls_on_ticket_read, NULL);
        SSL_CTX_set_tlsext_servername_callback(ctx, on_name);
        SSL_CTX_set_tlsext_status_cb(ctx, on_status);
        if (s->alpn_n) SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
        if (!SSL_CTX_set_session_id_context(ctx, s->context_id, sizeof s->context_id)) goto bad;
        if (s->clients) {
            SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (s->clients > 1 ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
            SSL_CTX_set_client_CA_list(ctx, SSL_dup_CA_list(s->accepted));
        }
    } else {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, heddle_tls_on_session);
        SSL_CTX_set_verify(ctx, s->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
        if (s->alpn_n && SSL_CTX_set_alpn_protos(ctx, s->alpn, (unsigned)s->alpn_n)) goto bad;
    }
    if (s->store) SSL_CTX_set1_cert_store(ctx, s->store);
    return ctx;
bad:
    heddle_tls_say(text, "the settings are refused");
    SSL_CTX_free(ctx);
    return NULL;
}

int heddle_tls_site_tuning(heddle_tls_site *s, const char *ciphers, const char *suites, const char *groups, char *text)
{
    ERR_clear_error();
    if ((*ciphers && !(s->ciphers = OPENSSL_strdup(ciphers))) || (*suites && !(s->suites = OPENSSL_strdup(suites))) ||
        (*groups && !(s->groups = OPENSSL_strdup(groups)))) {
        snprintf(text, 256, "out of memory");
        return -1;
    }
    SSL_CTX *ctx = context(s, text);
    if (!ctx) return -1;
    SSL_CTX_free(ctx);
    return 0;
}

/* Reading PEM ------------------------------------------------------------------------------------------------------ */

static int at_end(void)
{
    unsigned long e = ERR_peek_last_error();
    return ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
}

/* No bytes have no address, which libssl takes for a mistake. */
static BIO *memory(const uint8_t *p, size_t n) { return BIO_new_mem_buf(n ? (const void *)p : "", n > INT32_MAX ? INT32_MAX : (int)n); }

static STACK_OF(X509) *read_certificates(const uint8_t *pem, size_t n, struct heddle_tls_report *r)
{
    STACK_OF(X509) *list = sk_X509_new_null();
    BIO *b = memory(pem, n);
    X509 *x;
    while (list && b && (x = PEM_read_bio_X509_AUX(b, NULL, NULL, (void *)"")))
        if (!sk_X509_push(list, x)) { X509_free(x); break; }
    BIO_free(b);
    int count = list ? sk_X509_num(list) : 0;
    if (!at_end())
        problem(r, HEDDLE_TLS_BAD_CERTIFICATE, count + 1, "it cannot be read");
    else if (!count)
        problem(r, HEDDLE_TLS_NO_CERTIFICATE, 0, "it has no certificate");
    ERR_clear_error();
    if (r->code) {
        sk_X509_pop_free(list, X509_free);
        return NULL;
    }
    return list;
}

static int no_password(char *buf, int size, int rwflag, void *asked)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    *(int *)asked = 1;
    return -1;
}

static EVP_PKEY *read_key(const uint8_t *pem, size_t n, struct heddle_tls_report *r)
{
    int asked = 0;
    BIO *b = memory(pem, n);
    EVP_PKEY *k = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, &asked) : NULL;
    BIO_free(b);
    if (!k) {
        unsigned long e = ERR_peek_last_error();
        int unsupported = ERR_GET_LIB(e) == ERR_LIB_OSSL_DECODER;
        /* memmem: the bytes have no zero at their end. */
        int begins = n && memmem(pem, n, "PRIVATE KEY-----", 16) != NULL;
        int none = !begins && (at_end() || unsupported);
        problem(r, asked ? HEDDLE_TLS_ENCRYPTED_KEY : none ? HEDDLE_TLS_NO_KEY : HEDDLE_TLS_BAD_KEY, 0, "it cannot be read");
    }
    ERR_clear_error();
    return k;
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;
    return ASN1_TIME_to_tm(t, &tm) ? (int64_t)timegm(&tm) : 0;
}

int heddle_tls_site_authorities(heddle_tls_site *s, const uint8_t *pem, size_t n, struct heddle_tls_report *r)
{
    ERR_clear_error();
    memset(r, 0, sizeof *r);
    STACK_OF(X509) *list = read_certificates(pem, n, r);
    if (!list) return -1;
    int bad = 0;
    s->store = X509_STORE_new();
    s->accepted = sk_X509_NAME_new_null();
    for (int i = 0; s->store && s->accepted && !bad && i < sk_X509_num(list); i++) {
        X509_NAME *name = X509_NAME_dup(X509_get_subject_name(sk_X509_value(list, i)));
        bad = !X509_STORE_add_cert(s->store, sk_X509_value(list, i)) || !name || !sk_X509_NAME_push(s->accepted, name);
    }
    sk_X509_pop_free(list, X509_free);
    if (!s->store || !s->accepted || bad) return problem(r, HEDDLE_TLS_REFUSED, 0, "out of memory");
    /* A client may be given a server's own certificate to believe, without its authority. */
    if (!s->server) X509_STORE_set_flags(s->store, X509_V_FLAG_PARTIAL_CHAIN);
    /* A ticket of a server that asks for no certificate must not be resumed where one is required. */
    EVP_Digest(pem, n, s->context_id, NULL, EVP_sha256(), NULL);
    s->context_id[31] ^= (uint8_t)s->clients;
    return 0;
}

int heddle_tls_site_roots(heddle_tls_site *s, struct heddle_tls_report *r)
{
    static const char *const usual[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
    ERR_clear_error();
    memset(r, 0, sizeof *r);
    s->store = X509_STORE_new();
    if (!s->store) return problem(r, HEDDLE_TLS_REFUSED, 0, "out of memory");
    /* One file, read now: a folder of certificates would be searched during handshakes. */
    const char *named = getenv(X509_get_default_cert_file_env());
    if (named) {
        if (X509_STORE_load_file(s->store, named)) return 0;
        return problem(r, HEDDLE_TLS_REFUSED, 0, "SSL_CERT_FILE cannot be read");
    }
    if (X509_STORE_load_file(s->store, X509_get_default_cert_file())) return 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        ERR_clear_error();
        if (X509_STORE_load_file(s->store, usual[i])) return 0;
    }
    ERR_clear_error();
    return problem(r, HEDDLE_TLS_REFUSED, 0, "the system has no file of trusted certificates");
}

/* Certificates ----------------------------------------------------------------------------------------------------- */

struct names {
    char *p;
    size_t room, used;
    int count;
};

static int take_name(heddle_tls_site *s, struct names *to, const char *text, int n, int entry)
{
    char low[256];
    if (n <= 0 || !lower(low, text, (size_t)n)) return 0;
    size_t m = strlen(low) + 1;
    if (to->used + m <= to->room) {
        memcpy(to->p + to->used, low, m);
        to->used += m;
    }
    to->count++;
    return add_name(s, low, entry);
}

/* Domain names go to the table; addresses are only counted, because clients do not send them. */
static int take_names(heddle_tls_site *s, X509 *x, int entry, struct names *to)
{
    int bad = 0;
    GENERAL_NAMES *alt = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(alt) && !bad; i++) {
        int type;
        ASN1_STRING *v = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(alt, i), &type);
        if (type == GEN_DNS)
            bad = take_name(s, to, (const char *)ASN1_STRING_get0_data(v), ASN1_STRING_length(v), entry);
    }
    if (!alt) {
        char common[256];
        int n = X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, common, sizeof common);
        if (n > 0) bad = take_name(s, to, common, n, entry);
    }
    GENERAL_NAMES_free(alt);
    return bad;
}

/* Signed by the issuer, or by a responder whose certificate is in the answer and is from the issuer. */
static int is_signed(OCSP_BASICRESP *basic, X509 *issuer)
{
    X509_STORE *store = X509_STORE_new();
    STACK_OF(X509) *signers = sk_X509_new_null();
    int ok = store && signers && sk_X509_push(signers, issuer) && X509_STORE_add_cert(store, issuer) &&
             X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) && OCSP_basic_verify(basic, signers, store, 0) == 1;
    sk_X509_free(signers);
    X509_STORE_free(store);
    return ok;
}

/* An answer for this certificate that is still valid. */
static int check_staple(struct heddle_tls_entry *e, X509 *x, X509 *issuer, const uint8_t *p, size_t n, int64_t now, const char **why)
{
    const unsigned char *q = p;
    int status, reason, ok = 0;
    ASN1_GENERALIZEDTIME *revoked, *from, *until;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &q, (long)n);
    OCSP_BASICRESP *basic = NULL;
    OCSP_CERTID *id = NULL;
    *why = "it is no OCSP response in DER";
    if (!response) goto out;
    *why = "the responder did not answer with success";
    if (OCSP_response_status(response) != OCSP_RESPONSE_STATUS_SUCCESSFUL || !(basic = OCSP_response_get1_basic(response))) goto out;
    *why = "the issuer's certificate is not in the chain file, so that it cannot be checked";
    if (!issuer || !(id = OCSP_cert_to_id(NULL, x, issuer))) goto out;
    *why = "it is about another certificate";
    if (!OCSP_resp_find_status(basic, id, &status, &reason, &revoked, &from, &until)) goto out;
    *why = "it is not signed by the certificate's issuer, or in its name";
    if (!is_signed(basic, issuer)) goto out;
    *why = "it says that the certificate is revoked or unknown";
    if (status != V_OCSP_CERTSTATUS_GOOD) goto out;
    e->staple_until = until ? seconds_of(until) : 0;
    *why = "it has expired";
    if (e->staple_until && e->staple_until <= now) goto out;
    *why = "out of memory";
    e->staple = OPENSSL_malloc(n);
    if (!e->staple) goto out;
    memcpy(e->staple, p, n);
    e->staple_n = n;
    ok = 1;
out:
    ERR_clear_error();
    OCSP_CERTID_free(id);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    return ok;
}

int heddle_tls_site_add(heddle_tls_site *s, const uint8_t *chain, size_t chain_n, const uint8_t *key, size_t key_n,
                        const uint8_t *staple, size_t staple_n, int64_t now, char *names, size_t names_n,
                        struct heddle_tls_report *r)
{
    EVP_PKEY *k = NULL;
    STACK_OF(X509) *list = NULL;
    struct heddle_tls_entry e = { 0 };
    struct names to = { names, names_n, 0, 0 };
    int bad = -1;
    ERR_clear_error();
    memset(r, 0, sizeof *r);
    if (!(list = read_certificates(chain, chain_n, r)) || !(k = read_key(key, key_n, r))) goto out;
    X509 *x = sk_X509_value(list, 0);
    r->rsa = EVP_PKEY_get_base_id(k) == EVP_PKEY_RSA || EVP_PKEY_get_base_id(k) == EVP_PKEY_RSA_PSS;
    if (!X509_check_private_key(x, k)) {
        problem(r, HEDDLE_TLS_MISMATCH, 1, "the key belongs to another certificate");
        goto out;
    }
    for (int i = 0; i < sk_X509_num(list); i++) {
        X509 *y = sk_X509_value(list, i);
        int64_t from = seconds_of(X509_get0_notBefore(y)), until = seconds_of(X509_get0_notAfter(y));
        if (i == 0 || now < from || now >= until) {
            r->from = from;
            r->until = until;
        }
        if (now < from) { problem(r, HEDDLE_TLS_NOT_YET, i + 1, "it is not valid yet"); goto out; }
        if (now >= until) { problem(r, HEDDLE_TLS_EXPIRED, i + 1, "it has expired"); goto out; }
        if (i + 1 < sk_X509_num(list) && X509_check_issued(sk_X509_value(list, i + 1), y) != X509_V_OK) {
            problem(r, HEDDLE_TLS_ORDER, i + 1, "it was not issued by the next one");
            goto out;
        }
    }
    e.ctx = context(s, r->text);
    if (!e.ctx) { r->code = HEDDLE_TLS_REFUSED; goto out; }
    int taken = SSL_CTX_use_certificate(e.ctx, x);
    X509_up_ref(x);
    sk_X509_shift(list);
    taken = taken == 1 && SSL_CTX_set1_chain(e.ctx, list) == 1 && SSL_CTX_use_PrivateKey(e.ctx, k) == 1 && SSL_CTX_check_private_key(e.ctx) == 1;
    if (!taken) problem(r, HEDDLE_TLS_REFUSED, 1, "it is not usable");
    const char *why;
    if (taken && staple_n && !check_staple(&e, x, sk_X509_value(list, 0), staple, staple_n, now, &why)) {
        taken = 0;
        problem(r, HEDDLE_TLS_BAD_STAPLE, 0, why);
    }
    struct heddle_tls_entry *more = taken ? OPENSSL_realloc(s->entries, ((size_t)s->entry_count + 1) * sizeof *more) : NULL;
    if (taken && more) {
        s->entries = more;
        if (s->server && take_names(s, x, s->entry_count, &to)) taken = 0;
        r->names = (int64_t)to.used;
        if (taken && s->server && s->entry_count > 0 && !to.count) {
            problem(r, HEDDLE_TLS_NO_NAME, 1, "it has no domain name");
            taken = 0;
        }
        if (taken) {
            s->entries[s->entry_count++] = e;
            s->rsa |= r->rsa;
            memset(&e, 0, sizeof e);
            bad = 0;
        }
    }
    /* Twice: our reference, and that of the list, from which it was taken. */
    X509_free(x);
    X509_free(x);
    if (bad && !r->code) problem(r, HEDDLE_TLS_REFUSED, 0, "out of memory");
out:
    SSL_CTX_free(e.ctx);
    OPENSSL_free(e.staple);
    EVP_PKEY_free(k);
    sk_X509_pop_free(list, X509_free);
    ERR_clear_error();
    return bad;
}

int heddle_tls_site_finish(heddle_tls_site *s)
{
    char text[256];
    ERR_clear_error();
    if (s->entry_count) return 0;
    if (s->server || !(s->entries = OPENSSL_zalloc(sizeof *s->entries))) return -1;
    s->entries[0].ctx = context(s, text);
    if (!s->entries[0].ctx) return -1;
    s->entry_count = 1;
    return 0;
}
