#!/usr/bin/env python3
"""Writes docs/library.md's tables of the suites that have passed, by compiler, from docs/results/compilers/*.txt, and of what
each compiler's programs need, from docs/results/compilers/bench.json.

usage: compilers.py [--check]

Each file has a line that says where it ran, and one for each suite, as `HEDDLE_SUMMARY=FILE make test` writes them; lines of
several runs may have been put together, the newest of each suite. `make bench-compilers` makes bench.json. With --check nothing is written, and a stale table is a failure.
"""
import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = os.path.join("docs", "results", "compilers", "*.txt")
BENCH = os.path.join("docs", "results", "compilers", "bench.json")
PAGE = os.path.join("docs", "library.md")
END = "<!-- end of compilers -->\n"
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


def markdown(rows):
    head, *others = ["| " + " | ".join(cells) + " |\n" for cells in rows]
    return head + "|" + "|".join(["---"] * len(rows[0])) + "|\n" + "".join(others)


def suites_table():
    runs = sorted(map(read_run, sorted(glob.glob(os.path.join(ROOT, RUNS)))))
    names = sorted({name for _, _, suites in runs for name in suites})
    rows = [["Suite"] + [head for _, head, _ in runs]]
    return markdown(rows + [[f"`{name}`"] + [suites.get(name, "–") for _, _, suites in runs] for name in names])


def bench_table():
    """A ratio of CPU time to the C twin for each compiler, and how much more than with the first."""
    with open(os.path.join(ROOT, BENCH), encoding="utf-8") as file:
        document = json.load(file)
    rows = []
    for case in document["cases"]:
        ratios = {value["name"].rpartition("/")[2]: value for value in case["values"] if value["unit"] == "ratio"}
        twin = next((value for value in case["values"] if value["name"].startswith(f"{case['case']}:C:")), None)
        first = next(iter(ratios.values()))
        cells = [case["title"], f"{twin['median']:{',.0f' if twin['median'] >= 100 else '.3g'}} {twin['unit'].replace('us', 'µs')}" if twin else "–"]
        for value in ratios.values():
            more = round(100 * (value["median"] / first["median"] - 1))
            cells.append(f"{value['median']:.2f}" + ("" if value is first else f" ({more:+d} %)"))
        rows = rows or [["Case", "C"] + [f"GHC {version}" for version in ratios]]
        rows.append(cells)
    return markdown(rows)


TABLES = {"<!-- compilers: make compilers -->\n": suites_table, "<!-- compilers-bench: make compilers -->\n": bench_table}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    path = os.path.join(ROOT, PAGE)
    with open(path, encoding="utf-8") as file:
        page = file.read()
    written = page
    for begin, table in TABLES.items():
        before, rest = written.split(begin)
        _, after = rest.split(END, 1)
        written = before + begin + table() + END + after
    if check and written != page:
        sys.exit(f"compilers.py: a table of {PAGE} is not what {RUNS} and {BENCH} say; run: make compilers")
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(written)
    print("check-compilers: ok" if check else f"{PAGE}: written")


if __name__ == "__main__":
    main()
