/*
 * kTLS: the kernel encrypts what an open session of TLS 1.3 writes, so that files go out by sendfile.
 *
 * libssl offers the keys of the writing direction to the BIO. Ours keeps them and says no: libssl goes on encrypting. When a long
 * file is to be sent, they are given to the kernel, with the number of the next record; from then on nothing that libssl writes is
 * sent. The reading direction stays with libssl.
 */
#include "heddle_tls_internal.h"
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

enum { ALERT = 21 };

_Static_assert(sizeof(struct tls12_crypto_info_aes_gcm_128) <= HEDDLE_TLS_KEYS &&
                   sizeof(struct tls12_crypto_info_aes_gcm_256) <= HEDDLE_TLS_KEYS &&
                   sizeof(struct tls12_crypto_info_chacha20_poly1305) <= HEDDLE_TLS_KEYS,
               "a session has room for the keys of each cipher");

/* A socket that is not connected is refused with ENOTCONN if the kernel has kTLS. Sleeps: the kernel may load its module. */
int heddle_tls_kernel_has(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    int has = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) < 0 && errno == ENOTCONN;
    close(fd);
    return has;
}

/* Where the number of the next record is; NULL if the kernel's structure is not known here. */
static uint8_t *number_of(uint8_t *keys, size_t *n)
{
    struct tls_crypto_info info;
    memcpy(&info, keys, sizeof info);
    if (info.version != TLS_1_3_VERSION) return NULL;
    switch (info.cipher_type) {
    case TLS_CIPHER_AES_GCM_128:
        *n = sizeof(struct tls12_crypto_info_aes_gcm_128);
        return keys + offsetof(struct tls12_crypto_info_aes_gcm_128, rec_seq);
    case TLS_CIPHER_AES_GCM_256:
        *n = sizeof(struct tls12_crypto_info_aes_gcm_256);
        return keys + offsetof(struct tls12_crypto_info_aes_gcm_256, rec_seq);
    case TLS_CIPHER_CHACHA20_POLY1305:
        *n = sizeof(struct tls12_crypto_info_chacha20_poly1305);
        return keys + offsetof(struct tls12_crypto_info_chacha20_poly1305, rec_seq);
    default: return NULL;
    }
}

/* After a server's hello the keys of its content are the first that libssl would offer. Those for reading come next, and OpenSSL 3.2
   and later lose what they have received when they are refused (a reference of the BIO between the layers is dropped twice).
   TLS 1.2 is left out: its explicit nonces would have to go on from where libssl's are. */
void heddle_tls_keys_wanted(heddle_tls_conn *c, SSL *ssl)
{
    if (c->shared && heddle_tls_shared_kernel(c->shared) && SSL_version(ssl) == TLS1_3_VERSION) SSL_set_options(ssl, SSL_OP_ENABLE_KTLS);
}

void heddle_tls_keys_offered(heddle_tls_conn *c, const void *keys)
{
    SSL_clear_options(c->ssl, SSL_OP_ENABLE_KTLS);
    struct tls_crypto_info info;
    size_t n;
    memcpy(&info, keys, sizeof info);
    heddle_tls_keys_drop(c);
    uint8_t probe[HEDDLE_TLS_KEYS];
    memcpy(probe, &info, sizeof info);
    if (!number_of(probe, &n)) return;
    memcpy(c->keys, keys, n);
    c->keys_n = n;
    c->records = c->record_left = c->head_n = 0;
}

/* Count the records that libssl makes. It has written what it made with earlier keys before it offers the next; later it may write
   a record in parts. */
void heddle_tls_keys_used(heddle_tls_conn *c, const uint8_t *p, size_t n)
{
    if (!c->keys_n) return;
    while (n) {
        size_t m = n < c->record_left ? n : c->record_left;
        p += m;
        n -= m;
        c->record_left -= m;
        while (n && c->head_n < sizeof c->head && !c->record_left) {
            c->head[c->head_n++] = *p++;
            n--;
        }
        if (c->head_n == sizeof c->head) {
            c->record_left = (size_t)c->head[3] << 8 | c->head[4];
            c->head_n = 0;
            c->records++;
        }
    }
}

void heddle_tls_keys_drop(heddle_tls_conn *c)
{
    OPENSSL_cleanse(c->keys, sizeof c->keys);
    c->keys_n = 0;
}

int heddle_tls_to_kernel(heddle_tls_conn *c, int fd)
{
    if (c->kernel) return 1;
    if (!c->keys_n || c->dead || c->closing) return -1;
    /* Short records suit a new connection better, and the kernel makes only long ones. */
    if (!c->open || c->small) return 0;
    if (!heddle_tls_flushed(c, fd)) return 0;
    if (c->writing || c->dead) return 0;
    size_t n = c->keys_n;
    uint8_t *number = number_of(c->keys, &n);
    uint64_t next = 0;
    for (int i = 0; i < 8; i++) next = next << 8 | number[i];
    next += c->records;
    for (int i = 7; i >= 0; i--, next >>= 8) number[i] = (uint8_t)next;
    int moved = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0 && setsockopt(fd, SOL_TLS, TLS_TX, c->keys, (socklen_t)n) == 0;
    heddle_tls_keys_drop(c);
    if (!moved) return -1;
    c->kernel = 1;
    heddle_tls_shared_count(c->shared, HEDDLE_TLS_COUNT_KERNEL);
    return 1;
}

/* The farewell; lost if the socket is full, as it is without kTLS. */
void heddle_tls_kernel_farewell(heddle_tls_conn *c)
{
    static const uint8_t close_notify[2] = { 1, 0 };
    union { struct cmsghdr header; uint8_t room[CMSG_SPACE(1)]; } control = { 0 };
    struct iovec piece = { (void *)close_notify, sizeof close_notify };
    struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(1) };
    control.header.cmsg_level = SOL_TLS;
    control.header.cmsg_type = TLS_SET_RECORD_TYPE;
    control.header.cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(&control.header) = ALERT;
    while (syscall(SYS_sendmsg, c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) { }
}
