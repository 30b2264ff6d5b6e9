#!/usr/bin/env python3
"""Lists what the libraries and the command link, with licences, and refuses a licence that BSD-3-Clause cannot carry.

usage: licences.py [--check]

Writes docs/licences.md and the comment in packaging/debian/copyright. The packages are those that the cabal files of
libraries and programs for users name, and what these stand on, by ghc-pkg; the C libraries are those that they name. With
--check it writes nothing, and complains where the files are stale, on Debian 12, whose packages they list. Either way a package whose licence is not known to be
fit is a failure: Haskell is linked statically, so the licence of each package is a licence of the program.
"""
import re
import subprocess
import sys

from packages import APART, Project, words

PAGE = "docs/licences.md"
COPYRIGHT = "packaging/debian/copyright"
# Rooms that nobody links into a program of theirs.
OURS_ALONE = set(APART) | {"examples"}

# SPDX, as ghc-pkg writes them. Old registrations have Cabal's older names.
FIT = {"BSD-2-Clause", "BSD-3-Clause", "MIT", "ISC", "Apache-2.0", "Zlib", "CC0-1.0", "Unlicense"}
OLDER = {"BSD2": "BSD-2-Clause", "BSD3": "BSD-3-Clause", "BSD-3-Clause-LBNL": "BSD-3-Clause"}

# What `extra-libraries` and `x-loaded-libraries` name, with the C library that it is and its licence. They are linked dynamically, so that the LGPL
# asks no more than that another version can take their place.
C_LIBRARIES = {
    "brotlienc": ("Brotli", "MIT"),
    "c": ("glibc", "LGPL-2.1-or-later"),
    "crypt": ("libxcrypt", "LGPL-2.1-or-later"),
    "crypto": ("OpenSSL 3", "Apache-2.0"),
    "dl": ("glibc", "LGPL-2.1-or-later"),
    "ffi": ("libffi", "MIT"),
    "gmp": ("GMP", "LGPL-3.0-or-later"),
    "m": ("glibc", "LGPL-2.1-or-later"),
    "nghttp2": ("nghttp2", "MIT"),
    "numa": ("libnuma", "LGPL-2.1-only"),
    "pthread": ("glibc", "LGPL-2.1-or-later"),
    "rt": ("glibc", "LGPL-2.1-or-later"),
    "ssl": ("OpenSSL 3", "Apache-2.0"),
    "util": ("glibc", "LGPL-2.1-or-later"),
    "yaml": ("libyaml", "MIT"),
    "z": ("zlib", "Zlib"),
    "zstd": ("Zstandard", "BSD-3-Clause"),
}
FIT_IN_C = FIT | {"LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-or-later"}


def field(package, name):
    """A field of a registered package, by its name or its unit's."""
    for by in ("--unit-id", None):
        command = ["ghc-pkg", "field", *([by] if by else []), package, name, "--simple-output"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split()
    sys.exit(f"licences: ghc-pkg knows no {package}; run: make setup")


class Linked:
    """What components link: licences by Haskell package, and the names of C libraries."""

    def __init__(self, project, packages):
        self.haskell, self.c = {}, set()
        seen, below = set(), []
        for package in packages:
            for fields in package.library + package.executable:
                below += sorted(package.depends([fields]) - set(project.packages))
                self.c |= set(words(fields.get("extra-libraries", "") + " " + fields.get("x-loaded-libraries", "")))
        while below:
            unit = below.pop()
            if unit in seen:
                continue
            seen.add(unit)
            name = field(unit, "name")[0]
            self.haskell[name] = " ".join(field(unit, "license"))
            self.c |= set(field(unit, "extra-libraries"))
            below += field(unit, "depends")

    def complaints(self):
        for name, licence in sorted(self.haskell.items()):
            if OLDER.get(licence, licence) not in FIT:
                yield f"{name} is under {licence}, which a program under BSD-3-Clause cannot carry: use another package"
        for library in sorted(self.c):
            if library not in C_LIBRARIES:
                yield f"the licence of the C library {library} is not in scripts/licences.py: look it up, and add it there"
            elif C_LIBRARIES[library][1] not in FIT_IN_C:
                yield f"the C library {library} is under {C_LIBRARIES[library][1]}"

    def c_rows(self):
        return sorted({C_LIBRARIES[library] for library in self.c if library in C_LIBRARIES})


def command_packages(project):
    """The command's package and those of ours below it."""
    todo, found = [project.packages["heddle"]], {}
    while todo:
        package = todo.pop()
        if package.name not in found:
            found[package.name] = package
            todo += [project.packages[name] for name in project.below(package)]
    return list(found.values())


def page(everything, command):
    rows = [
        f"| {name} | {OLDER.get(licence, licence)} | {'yes' if name in command.haskell else 'no'} |"
        for name, licence in sorted(everything.haskell.items(), key=lambda row: row[0].lower())
    ]
    in_command = set(command.c_rows())
    c_rows = [f"| {name} | {licence} | {'yes' if (name, licence) in in_command else 'no'} |" for name, licence in everything.c_rows()]
    return "\n".join(
        [
            "# Licences of what is linked",
            "",
            "Heddle is under the [BSD 3-Clause licence](../LICENSE). A program on its libraries, and the `heddle` command, also contain the",
            "packages below, as Debian 12 has them; `make check-licences` compares this page with the cabal files, and fails for a licence that",
            "a program under BSD-3-Clause cannot carry. Written by `scripts/licences.py`.",
            "",
            "Haskell packages, linked statically:",
            "",
            "| package | licence | in `heddle` |",
            "|---|---|---|",
            *rows,
            "",
            "C libraries, linked dynamically. heddle-mpi also loads the MPI implementation that is installed, Open MPI (BSD-3-Clause) or MPICH",
            "(its own permissive licence), when a program starts.",
            "",
            "| library | licence | in `heddle` |",
            "|---|---|---|",
            *c_rows,
            "",
        ]
    )


def copyright_comment(command):
    by_licence = {}
    for name, licence in sorted(command.haskell.items()):
        by_licence.setdefault(OLDER.get(licence, licence), []).append(name)
    lines = ["Comment: The program contains these Haskell packages, linked statically."]
    for licence, names in sorted(by_licence.items()):
        lines.append(f" {licence}: {', '.join(names)}.")
    lines.append(" C libraries are linked dynamically: " + ", ".join(f"{name} ({licence})" for name, licence in command.c_rows()) + ".")
    return "\n".join(lines)


def with_comment(text, comment):
    without = re.sub(r"^Comment:.*\n(?: .*\n)*", "", text, count=1, flags=re.MULTILINE)
    return without.replace("Upstream-Name: heddle\n", f"Upstream-Name: heddle\n{comment}\n", 1)


def main():
    check = sys.argv[1:] == ["--check"]
    listed = subprocess.run(["ghc", "--numeric-version"], capture_output=True, text=True, check=True).stdout.startswith("9.0.")
    project = Project()
    users = [package for package in project.packages.values() if package.room not in OURS_ALONE]
    everything = Linked(project, users)
    command = Linked(project, command_packages(project))
    complaints = list(everything.complaints())
    with open(COPYRIGHT, encoding="utf-8") as file:
        before = file.read()
    for path, text in [(PAGE, page(everything, command)), (COPYRIGHT, with_comment(before, copyright_comment(command)))]:
        try:
            with open(path, encoding="utf-8") as file:
                stale = file.read() != text
        except FileNotFoundError:
            stale = True
        if stale and check and listed:
            complaints.append(f"{path} is stale; run: make licences")
        elif stale and not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for complaint in complaints:
        print(f"licences: {complaint}", file=sys.stderr)
    if complaints:
        sys.exit(1)
    print(f"licences: ok ({len(everything.haskell)} packages, {len(everything.c_rows())} C libraries)")


main()
