#!/usr/bin/env python3
"""Inspects the machine code behind Note [No safe point] of Heddle.Sched.Pool.

Usage: check_safe_points.py BUILDDIR | OBJECT

A thread takes an asynchronous exception where its code allocates (the heap check that comes first may enter the
collector) or calls. `finish` must do neither before its last store; `commitFork` may allocate only what it masks
exceptions with, or what a larger deque takes. So in the compiled code of both every change of the heap pointer
(%r12 on x86-64) must be followed by the call that masks (or grows the deque), and no other entry of the runtime
that yields may occur. Compilers change this silently: GHC 9.0 with -O1 allocates in the middle of `finish`.
"""
import glob
import os
import platform
import re
import subprocess
import sys

FUNCTIONS = ("finish1", "commitFork1")
MODULE = "HeddleziSchedziPool_"
# After an allocation, the first of these decides.
MASKS = ("stg_maskAsyncExceptionszh", "Deque_zdwgrow_info")
ALLOCATES = re.compile(r"\badd\s+\$0x[0-7]?[0-9a-f]{1,7},%r12$")
TARGET = re.compile(r"R_X86_64_(?:PLT32|PC32|32S?)\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$")
YIELDS = re.compile(r"^stg_(yield|block)")


def code_of(lines, function):
    start = next((i for i, line in enumerate(lines) if line.endswith(f"{MODULE}{function}_info>:")), None)
    if start is None:
        return None
    end = next((i for i in range(start + 1, len(lines)) if re.match(r"^[0-9a-f]+ <", lines[i])), len(lines))
    return lines[start + 1 : end]


def faults(function, code):
    targets = [(i, m.group(1)) for i, line in enumerate(code) if (m := TARGET.search(line))]
    if not any(name == MASKS[0] for _, name in targets):
        yield f"{function}: no call of {MASKS[0]}; does this script look at the right code?"
    for i, line in enumerate(code):
        if ALLOCATES.search(line.strip()):
            # A heap check that fails restores the pointer further on; success goes on to the next call.
            after = next((name for j, name in targets if j > i and not name.startswith(("stg_gc", ".text", "."))
                          and not name.endswith(("_info", "_closure")) or j > i and name.endswith(MASKS[1])), None)
            if after is None or not after.endswith(MASKS):
                yield f"{function}: allocates, and does not mask next: {line.strip()} (then {after})"
    for _, name in targets:
        if YIELDS.match(name):
            yield f"{function}: refers to {name}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if platform.machine() != "x86_64":
        print("check-safe-points: skipped, it reads x86-64 code only")
        return
    given = sys.argv[1]
    pattern = os.path.join(given, "build", "*", "*", "heddle-sched-*", "**", "Heddle", "Sched", "Pool.o")
    objects = [given] if given.endswith(".o") else [p for p in glob.glob(pattern, recursive=True) if "/t/" not in p]
    if not objects:
        sys.exit(f"check-safe-points: no Pool.o of heddle-sched below {given}; run 'make build' first")
    for path in objects:
        listing = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", path], check=True, capture_output=True, text=True)
        lines = listing.stdout.splitlines()
        found = []
        for function in FUNCTIONS:
            code = code_of(lines, function)
            found += [f"{function}: not in the object"] if code is None else faults(function, code)
        if found:
            sys.exit(f"check-safe-points: {path}\n  " + "\n  ".join(found)
                     + "\n  See Note [No safe point] in Heddle.Sched.Pool: mask this code, or make it allocate nothing.")
    print("check-safe-points: ok")


if __name__ == "__main__":
    main()
