#!/usr/bin/env python3
"""Every export of every library is documented.

usage: check_documentation.py COMMAND...

COMMAND runs Haddock, which prints how much of each module is documented.
"""
import re
import subprocess
import sys

COVERAGE = re.compile(r"^\s*\d+% \(\s*\d+ /\s*\d+\) in '([\w.]+)'")

# What is missing is listed with its place; what is only passed on from a package outside the project has
# none, and is documented there.
MISSING = re.compile(r"^    (\S.*) \(\S+:\d+\)$|^    (Module header)$")


def main():
    run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        print(run.stdout)
        sys.exit(f"check-documentation: Haddock failed (exit code {run.returncode}); its output is above")
    modules, short, module = 0, set(), None
    for line in run.stdout.splitlines():
        coverage, missing = COVERAGE.match(line), MISSING.match(line)
        if coverage:
            modules += 1
            module = coverage.group(1)
        elif missing and module:
            short.add(module)
            print(f"  {module}: {line.strip()}")
        elif not line.startswith("  "):
            module = None
    if short:
        sys.exit(
            f"check-documentation: {len(short)} of {modules} modules lack the comments above;"
            " STYLE.md, section 4, shows how they are written"
        )
    if modules == 0:
        print(run.stdout)
        sys.exit("check-documentation: Haddock reported on no module; is a library missing from cabal.project?")
    print(f"check-documentation: ok, {modules} modules documented in full")


main()
