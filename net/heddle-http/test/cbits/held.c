#include <malloc.h>
#include <stdint.h>

/* Bytes of C's memory in use. */
int64_t heddle_test_held(void)
{
  struct mallinfo2 all = mallinfo2();
  return (int64_t)(all.uordblks + all.hblkhd);
}
