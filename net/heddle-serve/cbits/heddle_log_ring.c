/*
 * A byte ring for one capability's log lines. Several Haskell threads of that capability are producers; the scheduler
 * never interrupts an unsafe call, so a whole put is atomic among them. One consumer runs on any capability. Positions
 * only grow; producers write the head and the consumer the tail, each on a cache line of its own.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

/* words[0] = head, words[8] = tail; capacity is a power of two. */
int64_t heddle_log_ring_put(int64_t *words, uint8_t *bytes, int64_t capacity, const uint8_t *line, int64_t length)
{
    int64_t head = words[0], tail = __atomic_load_n(&words[8], __ATOMIC_ACQUIRE);
    if (length > capacity - (head - tail)) return -1;
    int64_t at = head & (capacity - 1), first = capacity - at < length ? capacity - at : length;
    memcpy(bytes + at, line, (size_t)first);
    memcpy(bytes, line + first, (size_t)(length - first));
    __atomic_store_n(&words[0], head + length, __ATOMIC_SEQ_CST);
    return head + length - tail;
}

/* How many bytes of whole lines there are. */
int64_t heddle_log_ring_lines(const uint8_t *bytes, int64_t length)
{
    const uint8_t *last = memrchr(bytes, '\n', (size_t)length);
    return last ? last - bytes + 1 : 0;
}

/* How long the first line is; all of it, if it has no end. */
int64_t heddle_log_ring_first(const uint8_t *bytes, int64_t length)
{
    const uint8_t *first = memchr(bytes, '\n', (size_t)length);
    return first ? first - bytes + 1 : length;
}
