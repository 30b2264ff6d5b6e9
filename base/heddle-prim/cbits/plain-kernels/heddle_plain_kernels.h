/* Found by heddle_cpu.h only if the flag x86-kernels is off; installed with heddle-prim, so that other packages see it. */
