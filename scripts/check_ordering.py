#!/usr/bin/env python3
"""The generated code of Heddle.Prim.Atomic orders memory as its Note [Which machine] says.

On x86-64 a release write and an acquire read cost what plain ones do, and an atomic write and a fetch-and-add are full
barriers. With HEDDLE_WEAK_MEMORY, which chooses what other machines get, each of them has a fence.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

EXTENSIONS = ["BangPatterns", "DerivingStrategies", "ImportQualifiedPost", "LambdaCase", "ScopedTypeVariables"]
BARRIER = re.compile(r"\b(mfence|lock|xchg\w*)\b")
FENCE = re.compile(r"heddle_fence")


def main():
    if platform.machine() != "x86_64":
        print("check-ordering: nothing to look at on this machine")
        return
    strong, weak = assembly([]), assembly(["-optP-DHEDDLE_WEAK_MEMORY"])
    complaints = []

    def want(holds, text):
        if not holds:
            complaints.append(text)

    for name in ["plainRead", "acquireRead", "atomicallyRead", "plainWrite", "releaseWrite", "publish"]:
        want(not barriers(strong[name]), f"{name} has {barriers(strong[name])}: it should be plain")
    want(strong["acquireRead"] == strong["plainRead"], "an acquire read is not the code of a plain read")
    want(strong["releaseWrite"] == strong["plainWrite"], "a release write is not the code of a plain write")
    want(stores(strong["publish"]) == ["40", "32"], f"publish stores at {stores(strong['publish'])}: not in program order")
    for name in ["atomicallyWrite", "arrive"]:
        want(barriers(strong[name]), f"{name} has no barrier")
    for name in ["releaseWrite", "publish", "atomicallyWrite", "arrive"]:
        want(any(FENCE.search(line) for line in weak[name]), f"{name} has no fence with HEDDLE_WEAK_MEMORY")
    for complaint in complaints:
        print(f"  {complaint}")
    if complaints:
        sys.exit("check-ordering: see above, and Note [Which machine] in base/heddle-prim/src/Heddle/Prim/Atomic.hs")
    print("check-ordering: ok")


def assembly(flags):
    """The instructions of each function of Probe, with all labels alike."""
    with tempfile.TemporaryDirectory() as folder:
        # Copies, since GHC writes the assembly beside the source.
        os.makedirs(f"{folder}/Heddle/Prim")
        shutil.copy("base/heddle-prim/src/Heddle/Prim/Atomic.hs", f"{folder}/Heddle/Prim")
        shutil.copy("base/heddle-prim/test/ordering/Probe.hs", folder)
        subprocess.run(
            ["ghc", "-v0", "-O2", "-c", "--make", "-keep-s-files", f"-i{folder}"]
            + [f"-X{e}" for e in EXTENSIONS]
            + flags
            + [f"{folder}/Probe.hs"],
            check=True,
        )
        with open(f"{folder}/Probe.s", encoding="utf-8") as file:
            text = file.read()
    functions, name = {}, None
    for line in text.splitlines():
        label = re.match(r"^(\S+):", line)
        if label:
            # The worker, on unboxed arguments.
            symbol = re.match(r"^Probe_zdw(\w+)_info$", label.group(1))
            if symbol:
                name = symbol.group(1)
                functions[name] = []
            elif not label.group(1).startswith(".L"):
                name = None
        elif name and line.strip() and not line.strip().startswith("."):
            functions[name].append(re.sub(r"\.L\w+|Probe_\w+", "label", " ".join(line.split())))
    return functions


def barriers(lines):
    return [line for line in lines if BARRIER.search(line)]


def stores(lines):
    """The offsets of the constants that are stored."""
    return re.findall(r"movq \$[78],(\d+)\(", "\n".join(lines))


if __name__ == "__main__":
    main()
