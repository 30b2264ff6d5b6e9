/*
 * The system call as the tests want it: a program's own function takes the place of the C library's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags);
void test_getrandom(int error, int times, int most, int byte);
int test_getrandom_calls(void);

static int wanted_error, wanted_times, wanted_most, wanted_byte = -1, calls;

/* This many calls fail with this error; the others give at most this many bytes (0: as many as asked for), all of
   one value (-1: random ones). */
void test_getrandom(int error, int times, int most, int byte)
{
    wanted_error = error;
    wanted_times = times;
    wanted_most = most;
    wanted_byte = byte;
    calls = 0;
}

int test_getrandom_calls(void)
{
    return calls;
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    calls++;
    if (wanted_times) {
        if (wanted_times > 0) wanted_times--;
        errno = wanted_error;
        return -1;
    }
    if (wanted_most && length > (size_t)wanted_most) length = (size_t)wanted_most;
    if (wanted_byte < 0) return syscall(SYS_getrandom, buffer, length, flags);
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)wanted_byte++;
    return (ssize_t)length;
}
