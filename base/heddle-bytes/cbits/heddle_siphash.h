/*
 * SipHash of Aumasson and Bernstein, with 1 and 3 or 2 and 4 rounds.
 *
 * The four words of a state stay in registers. Nothing outside of the given bytes is read, and no
 * alignment is needed. `rounds` is 1 (SipHash-1-3) or 2 (SipHash-2-4).
 */
#ifndef HEDDLE_SIPHASH_H
#define HEDDLE_SIPHASH_H

#include <stdint.h>

/* The hash of this many bytes, starting from a state; the second form begins at an offset. */
uint64_t heddle_sip13(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t length);
uint64_t heddle_sip24(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t length);
uint64_t heddle_sip13_at(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, const uint8_t *bytes, int64_t offset,
                         int64_t length);

/* The hash of the words absorbed so far; the second form absorbs one more, with one round. */
uint64_t heddle_sip13_end(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3);
uint64_t heddle_sip13_word(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, uint64_t word);

/* Hashes a string piece by piece. The words of a stream: the state, the bytes of an incomplete word, and the
   number of bytes so far. */
void heddle_sip_update(uint64_t stream[6], const uint8_t *bytes, int64_t offset, int64_t length, int rounds);
uint64_t heddle_sip_finish(const uint64_t stream[6], int rounds);

#endif
