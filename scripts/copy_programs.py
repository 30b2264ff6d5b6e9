#!/usr/bin/env python3
"""Copies the executables of a cabal build to where people look for them.

usage: copy_programs.py BUILDDIR

Programs go to bin/, those of the package heddle-bench to bench/build/.
"""
import filecmp
import json
import os
import shutil
import sys


def main():
    with open(os.path.join(sys.argv[1], "cache", "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    for unit in plan["install-plan"]:
        for name, component in components(unit):
            source = component.get("bin-file")
            if name.startswith("exe:") and source and os.path.exists(source):
                folder = "bench/build" if unit["pkg-name"] == "heddle-bench" else "bin"
                copy(source, os.path.join(folder, name[len("exe:"):]))


def components(unit):
    """A package built as a whole lists its components; one built in parts is one itself."""
    if "components" in unit:
        return unit["components"].items()
    return [(unit.get("component-name", ""), unit)]


def copy(source, target):
    """Replaces by renaming: a copy of the program that is running stays as it was."""
    if os.path.exists(target) and filecmp.cmp(source, target, shallow=False):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target + ".new")
    os.replace(target + ".new", target)


main()
