#!/usr/bin/env python3
"""Runs test suites that have been built, some at a time, and ends with a summary in which what failed is told again.

usage: test.py [--jobs N] [--pattern P] [--minutes N] BUILDDIR [PACKAGE | SUITE]...

Without a package or suite it runs all of BUILDDIR's plan. One suite alone prints as it goes. Of several, each writes to
BUILDDIR/test-logs/SUITE.log, and prints only its result; the longest begin first, and those that measure run alone. A suite that
takes longer than --minutes (20) is ended and has failed, so that a test that hangs says so.

HEDDLE_SUMMARY=FILE writes where it ran, and a line for each suite.
"""
import argparse
import datetime
import json
import os
import platform
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time

# Suites that take more than half a minute, in seconds on two cores: the longest begin first.
LONG = {
    "heddle-mpi-test": 260,
    "heddle-test": 180,
    "heddle-filter-test": 130,
    "heddle-walk-find-test": 90,
    "heddle-serve-test": 60,
    "heddle-openflow-test": 60,
    "heddle-rendezvous-test": 45,
}

# Suites that compare times, and so run beside no other.
ALONE = {"heddle-measure-test"}

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FAILED = re.compile(r"^( .*): +FAIL(?: \([0-9.]+s\))?$")
HINT = re.compile(r"^\s+Use (-p .*|--quickcheck-replay=\S+) to (?:rerun|reproduce)")


class Suite:
    """A built suite: how it is run, and what came of it."""

    def __init__(self, name, program, folder, path, variables=()):
        self.name, self.program, self.folder, self.path, self.variables = name, program, folder, path, dict(variables)
        self.code, self.seconds, self.cpu, self.log, self.process, self.late = 1, 0, 0, None, None, False

    @property
    def suite(self):
        return self.name.split()[0]

    def start(self, options, log):
        variables = dict(os.environ, **self.variables)
        variables["PATH"] = os.pathsep.join(self.path + [variables.get("PATH", "")])
        self.began = time.monotonic()
        # In a group of its own, so that what it has started can be ended with it.
        self.process = subprocess.Popen(
            [self.program] + options, cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT if log else None, start_new_session=True)

    def wait(self, limit):
        """Waits until it has ended; after the limit, in seconds, it is ended."""
        if not self.ended(limit):
            self.late = True
            self.end()
        self.seconds = time.monotonic() - self.began

    def ended(self, limit):
        """Whether it ends within some seconds: then its code, and its processor time with that of the processes it has waited for."""
        ending = os.pidfd_open(self.process.pid)
        try:
            poll = select.poll()
            poll.register(ending, select.POLLIN)
            if not poll.poll(limit * 1000):
                return False
            _, status, spent = os.wait4(self.process.pid, 0)
        except ChildProcessError:
            # It was ended by a signal to this program, in another thread.
            return True
        finally:
            os.close(ending)
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = spent.ru_utime + spent.ru_stime
        return True

    def end(self):
        """Ends the suite with all that it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass
            if self.process.returncode is None:
                self.ended(10)
        self.code = self.code or 1

    def read(self):
        with open(self.log, errors="replace") as file:
            return file.read().splitlines()


class Result:
    """What a suite's output says."""

    def __init__(self, suite):
        lines = suite.read()
        self.passed = self.failed = self.skipped = self.unjudged = 0
        self.complaints, self.repeat = [], []
        self.empty = self.counted = False
        telling, inside = 0, 0
        for line in lines:
            indent = len(line) - len(line.lstrip(" "))
            if telling and (indent <= inside or not line):
                telling = 0
            if telling:
                self.complaints.append(line[:1000])
                telling -= 1
            hint = HINT.match(line)
            if hint and len(self.repeat) < 5:
                self.repeat.append(hint.group(1))
            if FAILED.match(line):
                inside, telling = indent, 8
                self.complaints.append(f"{suite.name}: {line.strip()}")
            self.skipped += bool(re.search(r"\(skipped: .*: +OK", line))
            self.unjudged += bool(re.search(r"\(not judged: ", line))
            whole = re.match(r"All (\d+) tests? passed", line)
            part = re.match(r"(\d+) out of (\d+) tests? failed", line)
            self.counted |= bool(whole or part)
            if whole:
                self.passed, self.failed = int(whole.group(1)), 0
                self.empty = self.passed == 0
            elif part:
                self.failed, self.passed = int(part.group(1)), int(part.group(2)) - int(part.group(1))
        self.passed = max(0, self.passed - self.skipped)
        if suite.late:
            self.complaints += [f"{suite.name}: ended after {suite.seconds / 60:.0f} minutes; its last lines:"]
        elif suite.code != 0 and not self.complaints:
            self.complaints += [f"{suite.name}: exit code {suite.code}; its last lines:"]
        if suite.late or (suite.code != 0 and not self.failed):
            self.complaints += ["  " + line[:1000] for line in lines[-15:]]

    def detail(self):
        # Some suites are one program without a count.
        if not self.counted:
            return ""
        parts = [f"{self.failed} of {self.failed + self.passed} failed" if self.failed else f"{self.passed} passed"]
        parts += [f"{self.skipped} skipped"] * bool(self.skipped)
        parts += [f"{self.unjudged} not judged"] * bool(self.unjudged)
        return ", ".join(parts)


def planned(builddir, wanted):
    """The suites of cabal's plan, all or those of some packages or names."""
    with open(os.path.join(builddir, "cache", "plan.json")) as file:
        units = json.load(file)["install-plan"]
    programs = {unit["id"]: unit["bin-file"] for unit in units if "bin-file" in unit}
    suites = []
    for unit in units:
        name = unit.get("component-name", "")
        if unit.get("style") != "local" or not name.startswith("test:"):
            continue
        name = name[len("test:"):]
        if wanted and name not in wanted and unit["pkg-name"] not in wanted:
            continue
        tools = [os.path.dirname(programs[tool]) for tool in unit.get("exe-depends", []) if tool in programs]
        suites.append(Suite(name, unit["bin-file"], unit["pkg-src"]["path"], tools))
    known = {suite.name for suite in suites} | {unit["pkg-name"] for unit in units}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"test.py: no such package or suite: {', '.join(unknown)}")
    # The shipped program starts otherwise than a suite: find's tests run on it, too.
    heddle = [unit["bin-file"] for unit in units if unit.get("component-name") == "exe:heddle" and unit["pkg-name"] == "heddle"]
    for suite in [s for s in suites if s.name == "heddle-walk-find-test"]:
        if heddle and os.path.exists(heddle[0]):
            suites.append(Suite(suite.name + " on heddle", suite.program, suite.folder, suite.path, {"HEDDLE_FIND": heddle[0]}))
    return suites


def run_all(suites, options, jobs, limit, folder):
    """Runs the suites, some at a time, and tells each result."""
    os.makedirs(folder, exist_ok=True)
    waiting = sorted(suites, key=lambda s: -LONG.get(s.suite, 0))
    together = [s for s in waiting if s.suite not in ALONE]
    alone = [s for s in waiting if s.suite in ALONE]
    lock, ended, running = threading.Lock(), [0], set()
    stopping = threading.Event()

    def one(suite):
        suite.log = os.path.join(folder, suite.name.replace(" ", "-") + ".log")
        with open(suite.log, "wb") as log:
            with lock:
                if stopping.is_set():
                    return
                try:
                    suite.start(options, log)
                    running.add(suite)
                except OSError as e:
                    log.write(f"cannot be started: {e}\n".encode())
            if suite.process:
                suite.wait(limit)
        with lock:
            running.discard(suite)
            if stopping.is_set():
                return
            ended[0] += 1
            verdict = "PASS" if suite.code == 0 else "FAIL"
            print(f"[{ended[0]}/{len(suites)}] {suite.name}: {verdict} ({suite.seconds:.0f} s, CPU {suite.cpu:.0f} s): {Result(suite).detail()}".rstrip(": "), flush=True)

    def worker():
        while True:
            with lock:
                if not together or stopping.is_set():
                    return
                suite = together.pop(0)
            one(suite)

    def stop(number, _frame):
        stopping.set()
        for suite in list(running):
            suite.end()
        print(f"stopped by signal {number}; the logs so far are in {folder}", flush=True)
        os._exit(128 + number)

    for number in STOPPING:
        signal.signal(number, stop)
    workers = [threading.Thread(target=worker, daemon=True) for _ in range(min(jobs, max(1, len(together))))]
    for thread in workers:
        thread.start()
    for thread in workers:
        while thread.is_alive():
            thread.join(0.5)
    for suite in alone:
        thread = threading.Thread(target=one, args=(suite,), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.5)


def show(suite, options, limit, folder):
    """Runs one suite in the open, and keeps what it prints."""
    os.makedirs(folder, exist_ok=True)
    suite.log = os.path.join(folder, suite.name.replace(" ", "-") + ".log")
    with open(suite.log, "wb") as log:
        tee = subprocess.Popen(["tee", suite.log], stdin=subprocess.PIPE, start_new_session=True)
        suite.start(options, tee.stdin)
        tee.stdin.close()

        def stop(number, _frame):
            suite.end()
            sys.exit(128 + number)

        for number in STOPPING:
            signal.signal(number, stop)
        suite.wait(limit)
        tee.wait()


def run(suites, options, jobs, limit, folder):
    """Runs suites, one alone in the open."""
    if len(suites) == 1:
        show(suites[0], options, limit, folder)
    else:
        run_all(suites, options, jobs, limit, folder)


def short(name):
    """A suite as SUITE= names it."""
    return "command" if name == "heddle-test" else re.sub(r"^heddle-|-test$", "", name)


def summarise(suites, wall, pattern, make="make test"):
    """The summary: a line for each suite, then what failed with the command of make that repeats it, then the sums."""
    results = [(suite, Result(suite)) for suite in suites]
    file = os.environ.get("HEDDLE_SUMMARY")
    if file:
        compiler = subprocess.run(["ghc", "--numeric-version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        with open("/etc/os-release") as release:
            system = dict(shlex.split(line)[0].split("=", 1) for line in release if "=" in line)["PRETTY_NAME"]
        with open(file, "w") as out:
            print(f"# GHC {compiler}, {system}, {platform.machine()}, {datetime.date.today()}", file=out)
            for suite, result in results:
                if suite.name == suite.suite:
                    print(suite.name, "PASS" if suite.code == 0 else "FAIL", result.detail(), file=out)
    print(f"\n{'Test summary':<70}{'wall':>6} {'CPU':>6}")
    for suite, result in results:
        print(f"  {suite.name:<34} {'PASS' if suite.code == 0 else 'FAIL'}  {result.detail():<27} {suite.seconds:4.0f} s {suite.cpu:4.0f} s")
    bad = [(suite, result) for suite, result in results if suite.code != 0]
    if bad:
        print("\nWhat failed:")
        for suite, result in bad:
            print("\n".join(result.complaints[:40]))
            for hint in result.repeat[:3] or [""]:
                # Within double quotes for the shell, in which make's $ is doubled.
                asked = hint.replace("$", "$$")
                quoted = shlex.quote(asked) if any(c in asked for c in '"$`\\!') else f'"{asked}"'
                print(f"  again: {make} SUITE={short(suite.suite)}" + (f" TEST_OPTIONS={quoted}" if hint else ""))
    empty = pattern is not None and all(result.empty for _, result in results)
    if empty:
        print("no test matches the pattern")
    sums = {key: sum(getattr(result, key) for _, result in results) for key in ("passed", "failed", "skipped", "unjudged")}
    names = ": " + ", ".join(suite.name for suite, _ in bad) if bad else ""
    judged = f", {sums['unjudged']} not judged" if sums["unjudged"] else ""
    print(f"\n{len(results)} suites ({len(bad)} failed{names}), {sums['passed']} tests passed, {sums['failed']} failed,"
          f" {sums['skipped']} skipped{judged}, in {wall // 60:.0f} min {wall % 60:.0f} s")
    print("FAILED" if bad or empty else "PASSED")
    return 1 if bad or empty else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("--jobs", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--pattern")
    parser.add_argument("--options", default="")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("builddir")
    parser.add_argument("wanted", nargs="*")
    given = parser.parse_intermixed_args()
    suites = planned(given.builddir, given.wanted)
    if not suites:
        sys.exit("test.py: no suite in the plan: build with tests")
    options = (["-p", given.pattern] if given.pattern else []) + shlex.split(given.options)
    folder = os.path.join(given.builddir, "test-logs")
    began = time.monotonic()
    run(suites, options, given.jobs, given.minutes * 60, folder)
    sys.exit(summarise(suites, time.monotonic() - began, given.pattern))


if __name__ == "__main__":
    main()
