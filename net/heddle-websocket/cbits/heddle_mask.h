/* The masking of RFC 6455, section 5.3. */
#ifndef HEDDLE_MASK_H
#define HEDDLE_MASK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes from[0..length) to `to`, byte i combined by exclusive or with byte i mod 4 of the key, the lowest first. Both
 * addresses may be equal, but must not overlap otherwise. `level` is one of heddle_cpu.h; every level gives the same
 * result. Nothing outside of the ranges is touched.
 */
void heddle_mask(int level, uint8_t *to, const uint8_t *from, size_t length, uint32_t key);

#endif
