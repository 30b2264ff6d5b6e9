#!/usr/bin/env python3
"""Runs a command that builds or tests, and tells where its time went: each component that was compiled, each link, each suite.

usage: times.py [--log FILE] COMMAND...
       times.py --read FILE

What the command prints goes through, and to FILE with the seconds since the start before each line; --read makes the tables of such
a file again. A component's time is from its first line to its last, beside what else was built then, so the sum is more than
the wall-clock time where several were built at once. CPU is that of the whole command with its children.
"""
import argparse
import re
import resource
import subprocess
import sys
import time

COMPILING = re.compile(r"^\[ *\d+ of \d+\] Compiling \S+ +\( \S+, (\S+) ")
COMPONENT = re.compile(r"/ghc-[\d.]+/([^/]+)-[\d.]+/(?:(?:[tlxb])/([^/]+)/)?")
LINKING = re.compile(r"^Linking (\S+) \.\.\.")
SUITE = re.compile(r"^\[\d+/\d+\] (.+): (PASS|FAIL) \((\d+) s, CPU (\d+) s\)")
STAGE = re.compile(r"^(check-[a-z-]+): ok|^Done: (.*)\.$|^make\[\d\]")


def component(path):
    found = COMPONENT.search(path)
    return None if not found else f"{found.group(1)}:{found.group(2) or 'library'}"


def tables(lines):
    """From lines with their seconds: the tables, as Markdown."""
    first, last, modules, links, suites, stages = {}, {}, {}, [], [], []
    linking = None
    for at, line in lines:
        if linking:
            links.append((at - linking[1], linking[0]))
            linking = None
        compiled, linked, suite, stage = COMPILING.match(line), LINKING.match(line), SUITE.match(line), STAGE.match(line)
        name = component((compiled or linked).group(1)) if compiled or linked else None
        if name:
            first.setdefault(name, at)
            last[name] = at
            modules[name] = modules.get(name, 0) + bool(compiled)
        if linked:
            linking = (name or linked.group(1), at)
        if suite:
            suites.append((int(suite.group(3)), int(suite.group(4)), suite.group(1)))
        if stage and stage.group(1):
            stages.append((at, stage.group(1)))
        if stage and stage.group(2):
            stages.append((at, stage.group(2)))
    took = sorted(((last[name] - first[name], name) for name in first), reverse=True)
    out = ["| Component | modules | seconds |", "|---|---|---|"]
    out += [f"| {name} | {modules[name]} | {seconds:.0f} |" for seconds, name in took if seconds >= 5]
    out += [f"| {sum(s < 5 for s, _ in took)} others | | {sum(s for s, _ in took if s < 5):.0f} |", ""]
    if links:
        links.sort(reverse=True)
        out += [f"{len(links)} links, {sum(s for s, _ in links):.0f} s until the next line; the longest: "
                + ", ".join(f"{name} {s:.0f} s" for s, name in links[:5]) + ".", ""]
    if suites:
        out += ["| Suite | seconds | of CPU |", "|---|---|---|"]
        out += [f"| {name} | {s} | {cpu} |" for s, cpu, name in sorted(suites, reverse=True) if s >= 5]
        short = [(s, cpu) for s, cpu, _ in suites if s < 5]
        out += [f"| {len(short)} others | {sum(s for s, _ in short)} | {sum(cpu for _, cpu in short)} |", ""]
    if stages:
        out += ["| Until | at |", "|---|---|"] + [f"| {name} | {at // 60:.0f} min {at % 60:.0f} s |" for at, name in stages] + [""]
    return "\n".join(out)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            at, _, text = line.rstrip("\n").partition(" ")
            yield float(at), text


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("--log", default="/dev/null")
    parser.add_argument("--read")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.read:
        print(tables(read(given.read)))
        return 0
    if not given.command:
        parser.error("say which command")
    began = time.monotonic()
    lines = []
    with open(given.log, "w", encoding="utf-8") as log, subprocess.Popen(
            given.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as run:
        for line in run.stdout:
            at = time.monotonic() - began
            lines.append((at, line.rstrip("\n")))
            print(f"{at:.1f} {line}", end="", file=log, flush=True)
            print(line, end="", flush=True)
    wall = time.monotonic() - began
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print()
    print(tables(lines))
    print(f"{' '.join(given.command)}: {wall // 60:.0f} min {wall % 60:.0f} s, {(spent.ru_utime + spent.ru_stime) / 60:.1f} min of CPU,"
          f" exit code {run.returncode}")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
