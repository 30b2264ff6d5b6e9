// A byte for each byte.
#include <stdint.h>
#include <string.h>

void heddle_translate(uint8_t *to, const uint8_t *from, int64_t n, const uint8_t *table)
{
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint8_t eight[8];
    memcpy(eight, from + i, 8);
    for (int k = 0; k < 8; k++)
      eight[k] = table[eight[k]];
    memcpy(to + i, eight, 8);
  }
  for (; i < n; i++)
    to[i] = table[from[i]];
}
