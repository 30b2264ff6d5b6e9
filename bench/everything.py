#!/usr/bin/env python3
"""Runs every suite of benchmarks one after the other, and makes the page that compares them with the documents' figures.

usage: everything.py [--quick] [--results DIR] [--suite NAME]... [--list]

Without --quick, all cases are recorded in docs/results, and the numbers in the documents are written anew. With --quick,
the cases of a quarter of an hour run with three rounds each: their results go to bench/build/results, beside copies of
the recorded ones, and the page there says of each result when it was measured.

A peer that is not installed is left out, and its suite goes on. A suite that fails does not stop the others; the exit code
is 1 then. An interrupt (Ctrl-C) stops the suite that runs and still makes the page of what there is.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

from harness import BENCH, BUILD, machine, now

ROOT = os.path.dirname(BENCH)
RECORDED = os.path.join(ROOT, "docs", "results")
SUITES = ("io", "serve", "wai", "tls", "h2", "gateways", "operate", "trace", "openflow", "par", "find", "coroutine", "rendezvous", "mpi", "bytes", "growth", "measure")
# One or two cases for each document and each front; --list prints them.
QUICK = {
    "io": ["fixed-400", "echo-1", "timer"],
    "serve": ["static-151B", "access-log", "syscalls"],
    "wai": ["wai-64", "wai-bytes"],
    "tls": ["tls-kept"],
    "h2": ["h2-151B"],
    "gateways": ["proxy-1KB"],
    "operate": ["gzip-static"],
    "trace": ["serve-traced"],
    "openflow": ["openflow-one"],
    "par": ["fork", "semaphore"],
    "find": ["seed"],
    "coroutine": ["hop"],
    "rendezvous": ["table1-10", "two-party", "examples-filter"],
    "mpi": ["pingpong", "trapezoid"],
    "bytes": ["decimal", "hash", "decode"],
    "growth": ["shared", "calls"],
    "measure": ["drift"],
}


def took(began):
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60} min {seconds % 60:02} s"


def command(suite, folder, quick):
    words = [sys.executable, os.path.join(BENCH, "run.py"), suite, "--keep", os.path.join(folder, f"{suite}.json")]
    if quick:
        words += ["--rounds", "3", "--seconds", "1", *(word for case in QUICK[suite] for word in ("--only", case))]
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the cases of a quarter of an hour")
    parser.add_argument("--results", metavar="DIR", help="where results go (docs/results; with --quick bench/build/results)")
    parser.add_argument("--suite", action="append", choices=SUITES, metavar="NAME", help="only this suite; may be repeated")
    parser.add_argument("--list", action="store_true", help="print what would run")
    options = parser.parse_args()
    suites = [suite for suite in SUITES if not options.suite or suite in options.suite]
    if options.list:
        for suite in suites:
            print(f"{suite:12} {' '.join(QUICK[suite]) if options.quick else 'all cases'}")
        return 0

    folder = os.path.abspath(options.results or (os.path.join(BUILD, "results") if options.quick else RECORDED))
    os.makedirs(folder, exist_ok=True)
    if not os.path.samefile(folder, RECORDED):
        for name in os.listdir(RECORDED):
            if name.endswith(".json"):
                shutil.copy(os.path.join(RECORDED, name), folder)
    print(f"{now()}  {machine()}\n{len(suites)} suites; results go to {folder}", flush=True)

    began, failed, interrupted = time.monotonic(), [], False
    for number, suite in enumerate(suites, 1):
        print(f"\n=== {suite}, {number} of {len(suites)}, after {took(began)}", flush=True)
        try:
            if subprocess.run(command(suite, folder, options.quick), check=False).returncode != 0:
                failed.append(suite)
        except KeyboardInterrupt:
            print("interrupted; the page has what was measured until now")
            failed.append(suite)
            interrupted = True
            break
    script = "results.py" if os.path.samefile(folder, RECORDED) else "results_page.py"
    written = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", script), *([folder] if script == "results_page.py" else [])], check=False)
    print(f"\n{len(suites)} suites in {took(began)}" + (f"; not whole: {', '.join(failed)}" if failed else ""))
    print(f"the page: {os.path.join(folder, 'index.html')}")
    return 130 if interrupted else 1 if failed or written.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
