// What is done to whole blocks of rows, without a call for each row.
#define _GNU_SOURCE
#include <locale.h>
#include <stdint.h>
#include <string.h>

// Do sets of characters mean what their bytes say? With the collation of a language, a range may take other characters.
int heddle_sieve_plain(void)
{
  const char *name = setlocale(LC_COLLATE, NULL);
  return name && (!strcmp(name, "C") || !strcmp(name, "POSIX") || !strcmp(name, "C.UTF-8") || !strcmp(name, "C.utf8"));
}

// The next row, from the row that begins at `from` on, which has one of some sequences of bytes. Each sequence is a row of
// bits: masks[b] are the places where b may stand, `first` those where sequences begin, `last` those where they end. Bit 63 is
// for bytes of which nothing is known. 0: there is none; 1: a byte of which nothing is known comes first; 2: a sequence does.
// out: where the row begins, where the next one does, and how many rows were passed over, if that is asked for.
int heddle_sieve_next(const uint64_t *masks, uint64_t first, uint64_t last, const uint8_t *p, int64_t size, int64_t from, int counting, int64_t *out)
{
  uint64_t state = 0;
  int64_t i = from;
  // masks['\n'] is 0: no sequence goes on in the next row.
  for (; i < size; i++) {
    state = (state << 1 | first) & masks[p[i]];
    if (state & last)
      break;
  }
  if (i >= size)
    return 0;
  const uint8_t *before = memrchr(p + from, '\n', (size_t)(i - from));
  const uint8_t *after = memchr(p + i, '\n', (size_t)(size - i));
  out[0] = before ? before + 1 - p : from;
  out[1] = after ? after + 1 - p : size;
  out[2] = 0;
  if (counting)
    for (int64_t k = from; k < out[0]; k++)
      out[2] += p[k] == '\n';
  return state & last & ~(UINT64_C(1) << 63) ? 2 : 1;
}

// One field of each row, with the row's newline; the fields are what stands between bytes that are the separator, or, if it
// is negative, the runs of bytes that are neither blanks nor tabs. The result is no longer than the rows; its length.
int64_t heddle_rows_field(uint8_t *to, const uint8_t *from, int64_t n, int64_t number, int separator)
{
  const uint8_t *p = from, *end = from + n;
  uint8_t *out = to;
  while (p < end) {
    const uint8_t *start = p, *stop;
    int64_t k = number;
    if (separator >= 0) {
      while (k > 1 && p < end && *p != '\n')
        k -= *p++ == separator;
      start = p;
      if (k > 1)
        stop = p;
      else {
        while (p < end && *p != '\n' && *p != separator)
          p++;
        stop = p;
      }
    } else {
      for (;;) {
        while (p < end && (*p == ' ' || *p == '\t'))
          p++;
        start = p;
        while (p < end && *p > ' ')
          p++;
        // Rare bytes below the blank that are none.
        while (p < end && *p != ' ' && *p != '\t' && *p != '\n')
          p++;
        stop = p;
        if (p >= end || *p == '\n' || --k == 0)
          break;
      }
      if (k > 1)
        start = stop;
    }
    size_t length = (size_t)(stop - start);
    memcpy(out, start, length);
    out += length;
    if (p < end && *p != '\n') {
      const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
      p = newline ? newline : end;
    }
    if (p < end) {
      *out++ = '\n';
      p++;
    }
  }
  return out - to;
}
