#!/usr/bin/env python3
"""Inspects the machine code behind Note [No safe point] of Heddle.Sched.Pool.

Usage: check_safe_points.py BUILDDIR

A thread takes an asynchronous exception where its code allocates (the heap check that comes first may enter the
collector) or calls. The functions named here must do neither between their first store and their last, so none of
them allocates at all, and no entry of the runtime that yields occurs in them. What a larger deque takes is
allocated in a call of its own, before the first store. Compilers change this silently: GHC 9.0 with -O1
allocates in the middle of `finish`, and with -O2 it kept a thunk of a fork's scope for the call after the push.

On x86-64 code that allocates adds to the heap pointer, %r12. That instruction is looked for among the bytes: tables lie
between the blocks of a function, and a listing that takes their bytes for code loses the first instruction after them,
which is where a heap check stands.

What GHC builds without optimisation is inspected, too: it inlines nothing there, so each module that those functions are
compiled from asks for -O2 itself.
"""
import glob
import os
import platform
import re
import subprocess
import sys
import tempfile

from check_ordering import EXTENSIONS

SOURCES = ("base/heddle-prim/src", "sched/heddle-sched/src")

# By module: each function with the names that it may have (a worker first), and what shows that this is its code.
FUNCTIONS = {
    "Pool": (
        (("zdwfinish", "finish1"), "stg_maskAsyncExceptionszh"),
        (("zdwcommitFork", "commitFork1"), "dirty_MUT_VAR"),
    ),
    "RunQueue": (
        (("zdwpushHere", "pushHere1"), "stg_MUT_ARR_PTRS_DIRTY_info"),
        (("zdwpushPrivately", "pushPrivately1"), "stg_MUT_ARR_PTRS_DIRTY_info"),
    ),
}
# add $imm8,%r12 and add $imm32,%r12 of a positive number; giving back what was not used adds a negative one.
ALLOCATES = re.compile(rb"\x49\x83\xc4[\x00-\x7f]|\x49\x81\xc4...[\x00-\x7f]", re.DOTALL)
CODE = re.compile(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)")
TARGET = re.compile(r"R_X86_64_(?:PLT32|PC32|32S?)\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$")
YIELDS = re.compile(r"^stg_(yield|block)")


def code_of(lines, module, names):
    for name in names:
        title = f"HeddleziSchedzi{module}_{name}_info>:"
        start = next((i for i, line in enumerate(lines) if line.endswith(title)), None)
        if start is not None:
            end = next((i for i in range(start + 1, len(lines)) if re.match(r"^[0-9a-f]+ <", lines[i])), len(lines))
            return name, lines[start + 1 : end]
    return None


def faults(name, code, sign):
    targets = [m.group(1) for line in code if (m := TARGET.search(line))]
    if sign not in targets:
        yield f"{name}: no use of {sign}; does this script look at the right code?"
    matches = [m for line in code if (m := CODE.match(line))]
    content = b"".join(bytes.fromhex(m.group(2)) for m in matches)
    for m in ALLOCATES.finditer(content):
        yield f"{name}: allocates at {int(matches[0].group(1), 16) + m.start():x}"
    yield from (f"{name}: refers to {target}" for target in targets if YIELDS.match(target))


def inspect(objects_of):
    for module, functions in FUNCTIONS.items():
        for path in objects_of(module):
            command = ["objdump", "-drz", "--insn-width=16", path]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
            found = []
            for names, sign in functions:
                code = code_of(lines, module, names)
                found += [f"{names[-1]}: not in the object"] if code is None else faults(*code, sign)
            if found:
                sys.exit(f"check-safe-points: {path}\n  " + "\n  ".join(found)
                         + "\n  See Note [No safe point] in Heddle.Sched.Pool: mask this, or make it allocate nothing.")


def built(folder):
    def objects_of(module):
        pattern = os.path.join(folder, "build", "*", "*", "heddle-sched-*", "**", "Heddle", "Sched", f"{module}.o")
        objects = [p for p in glob.glob(pattern, recursive=True) if "/t/" not in p]
        if not objects:
            sys.exit(f"check-safe-points: no {module}.o of heddle-sched below {folder}; run 'make build' first")
        return objects

    return objects_of


def unoptimised(folder):
    """Compiled with -O0 on the command line, which the options of the packages do not survive but those of modules do."""
    command = ["ghc", "-v0", "-O0", "-no-link", "-XHaskell2010", *(f"-X{e}" for e in EXTENSIONS), "-outputdir", folder]
    command += [f"-i{source}" for source in SOURCES] + [f"Heddle.Sched.{module}" for module in FUNCTIONS]
    subprocess.run(command, check=True)
    return lambda module: [os.path.join(folder, "Heddle", "Sched", f"{module}.o")]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if platform.machine() != "x86_64":
        print("check-safe-points: skipped, it reads x86-64 code only")
        return
    inspect(built(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        inspect(unoptimised(folder))
    print("check-safe-points: ok")


if __name__ == "__main__":
    main()
