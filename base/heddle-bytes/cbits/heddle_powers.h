/* Powers of ten from 10^-342 to 10^325: of each the high word, then the low word. */
#ifndef HEDDLE_POWERS_H
#define HEDDLE_POWERS_H

#include <stdint.h>

#define HEDDLE_POWERS 668

extern const uint64_t heddle_powers_of_ten[2 * HEDDLE_POWERS];

/* 10^0 to 10^22. */
#define HEDDLE_EXACT_POWERS 23

extern const double heddle_exact_powers[HEDDLE_EXACT_POWERS];

#endif
