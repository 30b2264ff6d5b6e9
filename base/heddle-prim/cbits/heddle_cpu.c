/*
 * Asks the processor, and the system through XGETBV, whether it keeps the wide registers of a thread
 * that is switched away. No ifunc and no __cpu_indicator_init: GHCi's linker knows neither.
 */
#include "heddle_cpu.h"

#if HEDDLE_X86_KERNELS

#include <cpuid.h>
#include <stdint.h>

static uint64_t kept_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

static int all_of(unsigned int word, unsigned int bits)
{
    return (word & bits) == bits;
}

int heddle_cpu_best(void)
{
    const unsigned int lzcnt = 1u << 5, avx512vbmi = 1u << 1, avx512vbmi2 = 1u << 6;
    const uint64_t ymm = 0x06, zmm = 0xe6;
    unsigned int a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return HEDDLE_CPU_PLAIN;
    if (!all_of(c, bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT)) return HEDDLE_CPU_PLAIN;
    if (!all_of(c, bit_OSXSAVE | bit_AVX) || (kept_registers() & ymm) != ymm) return HEDDLE_CPU_SSE4;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & lzcnt)) return HEDDLE_CPU_SSE4;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return HEDDLE_CPU_SSE4;
    if (!all_of(b, bit_AVX2 | bit_BMI | bit_BMI2)) return HEDDLE_CPU_SSE4;
    if (!all_of(b, bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL)) return HEDDLE_CPU_AVX2;
    if (!all_of(c, avx512vbmi | avx512vbmi2) || (kept_registers() & zmm) != zmm) return HEDDLE_CPU_AVX2;
    return HEDDLE_CPU_AVX512;
}

#else

int heddle_cpu_best(void)
{
    return HEDDLE_CPU_PLAIN;
}

#endif
