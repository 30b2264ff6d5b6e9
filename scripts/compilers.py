#!/usr/bin/env python3
"""Writes docs/library.md's table of the suites that have passed, by compiler, from docs/results/compilers/*.txt.

usage: compilers.py [--check]

Each file has a line that says where it ran, and one for each suite, as `HEDDLE_SUMMARY=FILE make test` writes them; lines of
several runs may have been put together, the newest of each suite. With --check nothing is written, and a stale table is a failure.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = os.path.join("docs", "results", "compilers", "*.txt")
PAGE = os.path.join("docs", "library.md")
BEGIN, END = "<!-- compilers: make compilers -->\n", "<!-- end of compilers -->\n"
WHERE = re.compile(r"^# GHC ([\d.]+), (.+), (\S+), (\d{4}-\d\d-\d\d)$")


def read_run(path):
    """Its compiler, the head of its column, and what each suite said."""
    with open(path, encoding="utf-8") as file:
        first, *lines = file.read().splitlines()
    where = WHERE.match(first)
    if not where:
        sys.exit(f"compilers.py: {path} does not begin with where it ran: {first}")
    compiler, system, machine, date = where.groups()
    system = re.sub(r" GNU/Linux", "", system)
    suites = {}
    for line in lines:
        suite, verdict, *detail = line.split(" ", 2)
        suites[suite] = (" ".join(detail) or "passed") if verdict == "PASS" else f"**{' '.join(detail) or 'failed'}**"
    return tuple(map(int, compiler.split("."))), f"GHC {compiler}, {system}, {machine}, {date}", suites


def table():
    runs = sorted(map(read_run, sorted(glob.glob(os.path.join(ROOT, RUNS)))))
    names = sorted({name for _, _, suites in runs for name in suites})
    rows = [["Suite"] + [head for _, head, _ in runs]]
    rows += [[f"`{name}`"] + [suites.get(name, "–") for _, _, suites in runs] for name in names]
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join("| " + " | ".join(cells) + " |\n" if cells[0] != "---" else "|" + "|".join(cells) + "|\n" for cells in rows)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    path = os.path.join(ROOT, PAGE)
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    written = before + BEGIN + table() + END + after
    if check and written != page:
        sys.exit(f"compilers.py: the table of {PAGE} is not what {RUNS} say; run: make compilers")
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(written)
    print("check-compilers: ok" if check else f"{PAGE}: written")


if __name__ == "__main__":
    main()
