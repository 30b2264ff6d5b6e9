/* Hashed passwords, by libxcrypt. Hashing takes long by design, so both functions are called as safe foreign calls. */
#define _GNU_SOURCE
#include <crypt.h>
#include <stdlib.h>
#include <string.h>

/* 1 if the password has this hash, in a time that says nothing about how much of it is right. */
int heddle_password_matches(const char *password, const char *hash)
{
    struct crypt_data *data = calloc(1, sizeof *data);
    if (!data) return 0;
    const char *made = crypt_rn(password, hash, data, (int)sizeof *data);
    size_t length = strlen(hash);
    int different = 1;
    if (made && made[0] != '*' && strlen(made) == length) {
        /* All bytes are compared, wherever the first difference is. */
        volatile unsigned char differences = 0;
        for (size_t i = 0; i < length; i++) differences |= (unsigned char)made[i] ^ (unsigned char)hash[i];
        different = differences != 0;
    }
    explicit_bzero(data, sizeof *data);
    free(data);
    return !different;
}

/* Hash a password by bcrypt with a new salt from the system; the length, or -1. */
int heddle_password_hash(const char *password, int cost, char *out, int room)
{
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    if (!crypt_gensalt_rn("$2y$", (unsigned long)cost, NULL, 0, setting, sizeof setting)) return -1;
    struct crypt_data *data = calloc(1, sizeof *data);
    if (!data) return -1;
    const char *made = crypt_rn(password, setting, data, (int)sizeof *data);
    int length = made && made[0] != '*' && strlen(made) < (size_t)room ? (int)strlen(made) : -1;
    if (length >= 0) memcpy(out, made, (size_t)length + 1);
    explicit_bzero(data, sizeof *data);
    free(data);
    return length;
}

/* 1 if the system's library can check passwords against this hash. */
int heddle_password_known(const char *hash)
{
    int answer = crypt_checksalt(hash);
    return answer == CRYPT_SALT_OK || answer == CRYPT_SALT_TOO_CHEAP;
}
