/*
 * SipHash-1-3 and 2-4 as the reference implementation has them: bytes one by one into words, a word for two
 * rounds or one, the bytes that are left by a switch that falls through, and the hash written to memory as
 * bytes.
 *
 *   bytes_siphash WAY N
 *
 * WAY is sip13-LENGTH or sip24-LENGTH. The hashes of N strings of that length, which begin at every eighth
 * byte of 4 KiB in turn, added up. Prints "timed WALL CPU 0 ANSWER", in nanoseconds.
 */
#define _GNU_SOURCE
#include "common.h"

#define ROTL(x, b) (uint64_t)(((x) << (b)) | ((x) >> (64 - (b))))

#define U32TO8_LE(p, v)                                                                                                \
    (p)[0] = (uint8_t)((v));                                                                                           \
    (p)[1] = (uint8_t)((v) >> 8);                                                                                      \
    (p)[2] = (uint8_t)((v) >> 16);                                                                                     \
    (p)[3] = (uint8_t)((v) >> 24);

#define U64TO8_LE(p, v)                                                                                                \
    U32TO8_LE((p), (uint32_t)((v)));                                                                                   \
    U32TO8_LE((p) + 4, (uint32_t)((v) >> 32));

#define U8TO64_LE(p)                                                                                                   \
    (((uint64_t)((p)[0])) | ((uint64_t)((p)[1]) << 8) | ((uint64_t)((p)[2]) << 16) | ((uint64_t)((p)[3]) << 24) |      \
     ((uint64_t)((p)[4]) << 32) | ((uint64_t)((p)[5]) << 40) | ((uint64_t)((p)[6]) << 48) | ((uint64_t)((p)[7]) << 56))

#define SIPROUND                                                                                                       \
    do {                                                                                                               \
        v0 += v1;                                                                                                      \
        v1 = ROTL(v1, 13);                                                                                             \
        v1 ^= v0;                                                                                                      \
        v0 = ROTL(v0, 32);                                                                                             \
        v2 += v3;                                                                                                      \
        v3 = ROTL(v3, 16);                                                                                             \
        v3 ^= v2;                                                                                                      \
        v0 += v3;                                                                                                      \
        v3 = ROTL(v3, 21);                                                                                             \
        v3 ^= v0;                                                                                                      \
        v2 += v1;                                                                                                      \
        v1 = ROTL(v1, 17);                                                                                             \
        v1 ^= v2;                                                                                                      \
        v2 = ROTL(v2, 32);                                                                                             \
    } while (0)

#define SIPHASH(name, cROUNDS, dROUNDS)                                                                                \
    __attribute__((noinline)) static int name(const void *in, const size_t inlen, const void *k, uint8_t *out)         \
    {                                                                                                                  \
        const unsigned char *ni = (const unsigned char *)in;                                                           \
        const unsigned char *kk = (const unsigned char *)k;                                                            \
        uint64_t v0 = UINT64_C(0x736f6d6570736575);                                                                    \
        uint64_t v1 = UINT64_C(0x646f72616e646f6d);                                                                    \
        uint64_t v2 = UINT64_C(0x6c7967656e657261);                                                                    \
        uint64_t v3 = UINT64_C(0x7465646279746573);                                                                    \
        uint64_t k0 = U8TO64_LE(kk);                                                                                   \
        uint64_t k1 = U8TO64_LE(kk + 8);                                                                               \
        uint64_t m;                                                                                                    \
        int i;                                                                                                         \
        const unsigned char *end = ni + inlen - (inlen % sizeof(uint64_t));                                            \
        const int left = inlen & 7;                                                                                    \
        uint64_t b = ((uint64_t)inlen) << 56;                                                                          \
        v3 ^= k1;                                                                                                      \
        v2 ^= k0;                                                                                                      \
        v1 ^= k1;                                                                                                      \
        v0 ^= k0;                                                                                                      \
        for (; ni != end; ni += 8) {                                                                                   \
            m = U8TO64_LE(ni);                                                                                         \
            v3 ^= m;                                                                                                   \
            for (i = 0; i < (cROUNDS); ++i)                                                                            \
                SIPROUND;                                                                                              \
            v0 ^= m;                                                                                                   \
        }                                                                                                              \
        switch (left) {                                                                                                \
        case 7:                                                                                                        \
            b |= ((uint64_t)ni[6]) << 48; /* FALLTHRU */                                                               \
        case 6:                                                                                                        \
            b |= ((uint64_t)ni[5]) << 40; /* FALLTHRU */                                                               \
        case 5:                                                                                                        \
            b |= ((uint64_t)ni[4]) << 32; /* FALLTHRU */                                                               \
        case 4:                                                                                                        \
            b |= ((uint64_t)ni[3]) << 24; /* FALLTHRU */                                                               \
        case 3:                                                                                                        \
            b |= ((uint64_t)ni[2]) << 16; /* FALLTHRU */                                                               \
        case 2:                                                                                                        \
            b |= ((uint64_t)ni[1]) << 8; /* FALLTHRU */                                                                \
        case 1:                                                                                                        \
            b |= ((uint64_t)ni[0]);                                                                                    \
            break;                                                                                                     \
        case 0:                                                                                                        \
            break;                                                                                                     \
        }                                                                                                              \
        v3 ^= b;                                                                                                       \
        for (i = 0; i < (cROUNDS); ++i)                                                                                \
            SIPROUND;                                                                                                  \
        v0 ^= b;                                                                                                       \
        v2 ^= 0xff;                                                                                                    \
        for (i = 0; i < (dROUNDS); ++i)                                                                                \
            SIPROUND;                                                                                                  \
        b = v0 ^ v1 ^ v2 ^ v3;                                                                                         \
        U64TO8_LE(out, b);                                                                                             \
        return 0;                                                                                                      \
    }

SIPHASH(siphash13, 1, 3)
SIPHASH(siphash24, 2, 4)

enum { SPREAD = 4096 };

static uint8_t key[16], *text;

static int64_t run(int rounds, int64_t length, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *from = text + (i * 8 & (SPREAD - 1));
        uint8_t out[8];
        if (rounds == 1)
            siphash13(from, (size_t)length, key, out);
        else
            siphash24(from, (size_t)length, key, out);
        uint64_t hash;
        memcpy(&hash, out, 8);
        sum += hash;
    }
    return (int64_t)sum;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int rounds = 0;
    int64_t length = 0, n = argc == 3 ? atoll(argv[2]) : 0;
    if (argc == 3 && strncmp(argv[1], "sip13-", 6) == 0)
        rounds = 1;
    if (argc == 3 && strncmp(argv[1], "sip24-", 6) == 0)
        rounds = 2;
    if (rounds)
        length = atoll(argv[1] + 6);
    if (length < 1 || length > 1 << 20 || n < 1) {
        fprintf(stderr, "usage: bytes_siphash sip13-LENGTH|sip24-LENGTH N\n");
        return 2;
    }
    text = malloc((size_t)(length + SPREAD));
    if (!text)
        die("malloc");
    for (int64_t i = 0; i < length + SPREAD; i++)
        text[i] = (uint8_t)(i * 167 + (i >> 8) * 13);
    for (int i = 0; i < 16; i++)
        key[i] = (uint8_t)i;
    volatile int64_t before = run(rounds, length, n + 1);
    (void)before;
    int64_t wall = now_ns(), cpu = cpu_ns();
    int64_t answer = run(rounds, length, n);
    int64_t cpu_after = cpu_ns(), wall_after = now_ns();
    printf("timed %ld %ld 0 %ld\n", (long)(wall_after - wall), (long)(cpu_after - cpu), (long)answer);
    return 0;
}
