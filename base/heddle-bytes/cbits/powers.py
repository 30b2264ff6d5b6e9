#!/usr/bin/env python3
"""Writes heddle_powers.c: powers of ten to 128 bits, the highest bit set.

An entry is the power's leading 128 bits, rounded down; those of 10^-27 to 10^-1, whose
multiples may be whole numbers, are rounded up. Then those that a double holds exactly.
"""

FIRST, LAST = -342, 325


def power(q):
    if q >= 0:
        numerator, denominator = 10**q, 1
    else:
        numerator, denominator = 1, 10**-q
    shift = 0
    while numerator << shift < denominator << 127:
        shift += 1
    while numerator << max(shift, 0) >= (denominator << 128) << max(-shift, 0):
        shift -= 1
    value = (numerator << max(shift, 0)) // (denominator << max(-shift, 0))
    return value + 1 if -27 <= q < 0 else value


def main():
    print("/* Made by powers.py. */")
    print('#include "heddle_powers.h"')
    print()
    print("const uint64_t heddle_powers_of_ten[2 * HEDDLE_POWERS] = {")
    for q in range(FIRST, LAST + 1):
        value = power(q)
        assert 1 << 127 <= value < 1 << 128
        print(f"    0x{value >> 64:016x}, 0x{value & (1 << 64) - 1:016x}, /* {q} */")
    print("};")
    print()
    print("const double heddle_exact_powers[HEDDLE_EXACT_POWERS] = {")
    for first in range(0, 23, 6):
        print("    " + " ".join(f"1e{q}," for q in range(first, min(first + 6, 23))))
    print("};")


if __name__ == "__main__":
    main()
