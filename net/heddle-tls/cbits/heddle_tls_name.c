/* The name in a peer's certificate, as text. */
#include "heddle_tls_internal.h"
#include <string.h>

int heddle_tls_subject(const uint8_t *der, size_t n, uint8_t *to, size_t room)
{
    ERR_clear_error();
    const uint8_t *at = der;
    X509 *x = d2i_X509(NULL, &at, (long)n);
    BIO *b = BIO_new(BIO_s_mem());
    char *data;
    long m = -1;
    if (x && b && X509_NAME_print_ex(b, X509_get_subject_name(x), 0, XN_FLAG_RFC2253) >= 0) {
        m = BIO_get_mem_data(b, &data);
        if (m > (long)room) m = (long)room;
        if (m > 0) memcpy(to, data, (size_t)m);
    }
    BIO_free(b);
    X509_free(x);
    ERR_clear_error();
    return (int)m;
}
