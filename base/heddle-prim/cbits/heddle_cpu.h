/*
 * Which vector instructions this processor and its system offer.
 *
 * A level includes all below it. Kernels that exist at several levels give the same answers at each.
 */
#ifndef HEDDLE_CPU_H
#define HEDDLE_CPU_H

/*
 * Is code for x86-64 compiled? A name that is not defined counts as 0: include this file first. The header that turns
 * it off is installed by the flag x86-kernels of heddle-prim, so packages above it cannot disagree.
 */
#if defined(__x86_64__) && !__has_include("heddle_plain_kernels.h")
#define HEDDLE_X86_KERNELS 1
#else
#define HEDDLE_X86_KERNELS 0
#endif

enum heddle_cpu_level {
    HEDDLE_CPU_PLAIN = 0,   /* What every processor of this kind has. */
    HEDDLE_CPU_SSE4 = 1,    /* SSSE3, SSE4.1, SSE4.2, POPCNT. */
    HEDDLE_CPU_AVX2 = 2,    /* AVX, AVX2, BMI1, BMI2, LZCNT. */
    HEDDLE_CPU_AVX512 = 3   /* AVX-512 F, DQ, CD, BW, VL, VBMI, VBMI2: Ice Lake, Zen 4. */
};

/* The highest level of this machine. Does not read the environment, has no state. */
int heddle_cpu_best(void);

#endif
