// getrandom(2): the number of bytes, or -errno.
#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

long heddle_random(void *buffer, size_t length)
{
  long count = getrandom(buffer, length, 0);
  return count < 0 ? -(long)errno : count;
}
