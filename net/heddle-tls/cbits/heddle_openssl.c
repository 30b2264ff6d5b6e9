/* Loads libssl, and libcrypto with it: the release that this was compiled for. */
#include "heddle_tls.h"
#include "heddle_openssl.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define NAME(name) #name,

struct heddle_openssl heddle_openssl;

static const char *const names[] = { HEDDLE_OPENSSL_FUNCTIONS(NAME) };

_Static_assert(sizeof names == sizeof heddle_openssl, "a pointer for each name");

int heddle_tls_load(char text[256])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static atomic_int loaded;
    if (atomic_load_explicit(&loaded, memory_order_acquire)) return 0;
    pthread_mutex_lock(&lock);
    /* For the whole program: what it has opened and made there has no end. */
    void *library = dlopen("libssl.so." TEXT(OPENSSL_SHLIB_VERSION), RTLD_LAZY);
    size_t found = 0;
    for (void *f; library && found < sizeof names / sizeof *names && (f = dlsym(library, names[found])); found++)
        memcpy((char *)&heddle_openssl + found * sizeof f, &f, sizeof f);
    int failed = found < sizeof names / sizeof *names;
    if (failed)
        snprintf(text, 256, "%s", dlerror());
    else
        atomic_store_explicit(&loaded, 1, memory_order_release);
    pthread_mutex_unlock(&lock);
    return failed ? -1 : 0;
}
