/* Certificates for development, signed with their own key. */
#include "heddle_tls_internal.h"
#include <string.h>

static int extend(X509 *x, int nid, const char *value)
{
    X509V3_CTX with;
    X509V3_set_ctx_nodb(&with);
    X509V3_set_ctx(&with, x, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &with, nid, value);
    int ok = e && X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
    return ok;
}

static int copy_out(BIO *b, uint8_t *p, size_t *n)
{
    char *data;
    long m = BIO_get_mem_data(b, &data);
    if (m <= 0 || (size_t)m > *n) return 0;
    memcpy(p, data, (size_t)m);
    *n = (size_t)m;
    return 1;
}

int heddle_tls_self_signed(const char *common, const char *names, int days, uint8_t *certificate, size_t *certificate_n,
                           uint8_t *key, size_t *key_n, char *text)
{
    ERR_clear_error();
    uint8_t serial[16];
    EVP_PKEY *k = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    BIO *b = BIO_new(BIO_s_mem()), *d = BIO_new(BIO_s_mem());
    BIGNUM *number = RAND_bytes(serial, sizeof serial) == 1 ? BN_bin2bn(serial, sizeof serial, NULL) : NULL;
    X509_NAME *name = x ? X509_get_subject_name(x) : NULL;
    if (number) BN_clear_bit(number, 127);
    int ok = k && x && b && d && number && X509_set_version(x, X509_VERSION_3) && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) &&
             /* An hour back, for clocks that are behind. */
             X509_gmtime_adj(X509_getm_notBefore(x), -3600) && X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL) &&
             X509_set_pubkey(x, k) && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const uint8_t *)common, -1, -1, 0) &&
             X509_set_issuer_name(x, name) && extend(x, NID_basic_constraints, "critical,CA:FALSE") &&
             extend(x, NID_key_usage, "critical,digitalSignature") && extend(x, NID_ext_key_usage, "serverAuth") &&
             extend(x, NID_subject_alt_name, names) && extend(x, NID_subject_key_identifier, "hash") &&
             X509_sign(x, k, EVP_sha256()) && PEM_write_bio_X509(b, x) && PEM_write_bio_PKCS8PrivateKey(d, k, NULL, NULL, 0, NULL, NULL) &&
             copy_out(b, certificate, certificate_n) && copy_out(d, key, key_n);
    if (!ok) heddle_tls_say(text, "the certificate could not be made");
    BN_free(number);
    BIO_free(b);
    BIO_free(d);
    X509_free(x);
    EVP_PKEY_free(k);
    ERR_clear_error();
    return ok ? 0 : -1;
}
