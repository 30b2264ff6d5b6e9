#!/usr/bin/env python3
"""Runs built suites on a machine that stalls: all their processes are stopped and continued at random, and get a fifth of a processor.

usage: stall.py [--rounds N] [--jobs N] [--seed N] [--quota PERCENT] [--minutes N] [--pattern P] [--options TEXT] BUILDDIR [all | SUITE]...

A round is one run of a suite. Its seed, which is --seed plus its number, decides how long the processes run and for how long they
are stopped, 10 to 1,000 ms by SIGSTOP; the scheduler still decides where in the program that is. Daemons that a suite starts are
stopped with it. Where a control group of version 2 can be made, it limits the suite to --quota (20) percent of a processor;
elsewhere the processes are stopped for so much of the time that no more is left. So --jobs (1) rounds can run at once, four for
each processor; each is in a process of its own, which answers for all that the suite starts.

A suite that fails here and nowhere else waits for a duration where it should wait for a state, or judges a time.
"""
import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import select
import shlex
import signal
import sys
import time
import traceback

import test

SUBREAPER = 36  # prctl(2), PR_SET_CHILD_SUBREAPER


def processes():
    """The parent and the state of each process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                # The command in parentheses may contain anything.
                state, parent = file.read().rpartition(")")[2].split()[:2]
                found[int(name)] = (int(parent), state)
    return found


def below(root, found):
    """The processes that descend from one, without it, parents before children."""
    children = {}
    for process, (parent, _) in found.items():
        children.setdefault(parent, []).append(process)
    tree = [root]
    for process in tree:
        tree += children.get(process, [])
    return tree[1:]


def send(number, process):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


class Tree:
    """All processes that this one has started. Those that lose their parent become its children, as it is their subreaper."""

    def __init__(self):
        if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        self.stopped = []

    def members(self):
        found = processes()
        return [(process, found[process][1]) for process in below(os.getpid(), found)]

    def stop(self):
        """Stops everything; what is stopped already, by the suite, stays its own affair."""
        new = True
        while new:
            new = [process for process, state in self.members() if state not in "TtZX" and process not in self.stopped]
            for process in new:
                send(signal.SIGSTOP, process)
            self.stopped += new

    def go_on(self):
        """Continues what has been stopped."""
        for process in self.stopped:
            send(signal.SIGCONT, process)
        self.stopped = []

    def end(self):
        """Ends what a suite has left running."""
        while members := self.members():
            for process, state in members:
                if state not in "ZX":
                    send(signal.SIGKILL, process)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)


class Quota:
    """A control group that limits the processes in it to some percent of a processor, where one can be made."""

    def __init__(self, percent, root="/sys/fs/cgroup"):
        self.folder = None
        try:
            with open("/proc/self/cgroup", encoding="utf-8") as file:
                own = re.search(r"(?m)^0::(.*)$", file.read()).group(1)
            folder = f"{root}{own.rstrip('/')}/heddle-stall-{os.getpid()}"
            os.mkdir(folder)
            self.folder = folder
            # The kernel has made these files, if it has the controller; in any other folder they are missing.
            with open(f"{folder}/cpu.max", "r+", encoding="utf-8") as limit:
                limit.write(f"{percent * 1000} 100000")
        except (OSError, AttributeError):
            self.close()

    def take(self, process):
        try:
            if self.folder:
                with open(f"{self.folder}/cgroup.procs", "r+", encoding="utf-8") as file:
                    file.write(str(process))
        except OSError:
            self.close()

    def close(self):
        if self.folder:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
        self.folder = None


def times(seed, percent, limited):
    """How long the processes run, and for how long they then stop, again and again, in seconds."""
    chance = random.Random(seed)
    while True:
        stop = chance.uniform(0.01, 1)
        # Without a limit from elsewhere the time between the stops is the limit.
        run = chance.uniform(0.01, 1) if limited else stop * percent / (100 - percent) * chance.uniform(0.5, 1.5)
        yield run, stop


def one_round(suite, seed, options, given, quota, tree):
    """Runs a suite once, to its end or to the limit."""
    with open(suite.log, "wb") as log:
        suite.start(options, log)
    quota.take(suite.process.pid)
    try:
        for run, stop in times(seed, given.quota, quota.folder):
            if suite.ended(run):
                break
            suite.late = time.monotonic() - suite.began > given.minutes * 60
            if suite.late:
                break
            tree.stop()
            time.sleep(stop)
            tree.go_on()
    finally:
        tree.go_on()
        if suite.process.poll() is None:
            suite.end()
        suite.seconds = time.monotonic() - suite.began
        tree.end()


class Round:
    """A round in a process of its own, and what came of it."""

    def __init__(self, suite, seed, options, given):
        self.suite, self.seed = suite, seed
        self.pipe, writing = os.pipe()
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    tree, quota = Tree(), Quota(given.quota)
                    with contextlib.closing(quota):
                        one_round(suite, seed, options, given, quota, tree)
                    os.write(writing, json.dumps([suite.code, suite.seconds, suite.late]).encode())
                except Exception:
                    traceback.print_exc()
            os._exit(0)
        os.close(writing)

    def fileno(self):
        return self.pipe

    def finish(self):
        """Waits for its end. Whether it came to a verdict."""
        said = os.read(self.pipe, 1000)
        os.close(self.pipe)
        os.waitpid(self.process, 0)
        if said:
            self.suite.code, self.suite.seconds, self.suite.late = json.loads(said)
        return bool(said)


def run(planned, options, given):
    """Runs rounds, some at a time, and gives those that have ended, with whether all have."""
    running, ended = [], []
    try:
        while True:
            while len(running) < given.jobs and (following := next(planned, None)):
                running.append(Round(*following, options, given))
            if not running:
                return ended, True
            for one in select.select(running, [], [])[0]:
                running.remove(one)
                one.finish()
                ended.append((one.suite, one.seed))
                print(told(one.suite, one.seed), flush=True)
    except KeyboardInterrupt:
        for one in running:
            send(signal.SIGTERM, one.process)
        ended += [(one.suite, one.seed) for one in running if one.finish()]
        return ended, False


def told(suite, seed):
    """A round in one line."""
    verdict = "PASS" if suite.code == 0 else "FAIL"
    return f"{suite.name} seed {seed}: {verdict} ({suite.seconds:.0f} s): {test.Result(suite).detail()}".rstrip(": ")


def summarise(rounds, stopped=""):
    """A line for each round, what failed with its seed, and the sums; the exit code."""
    bad = [(suite, seed) for suite, seed in rounds if suite.code != 0]
    print("\nRounds")
    for suite, seed in rounds:
        print("  " + told(suite, seed))
    for suite, seed in bad:
        print(f"\n{suite.name} failed; all that it said is in {suite.log}")
        print("\n".join(test.Result(suite).complaints[:40]))
        print(f"  again: make stall SUITE={test.short(suite.suite)} ROUNDS=1 SEED={seed}")
    print(f"\n{len(rounds)} rounds, {len(bad)} failed\n{stopped or ('FAILED' if bad else 'PASSED')}")
    return int(bool(bad))


def interrupted(number, _frame):
    # Once: what ends the suites is not interrupted.
    for every in test.STOPPING:
        signal.signal(every, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000 * 100)
    parser.add_argument("--quota", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pattern")
    parser.add_argument("--options", default="")
    parser.add_argument("builddir")
    parser.add_argument("wanted", nargs="*")
    given = parser.parse_args()
    wanted = [] if "all" in given.wanted else given.wanted
    options = (["-p", given.pattern] if given.pattern else []) + shlex.split(given.options)
    folder = os.path.join(given.builddir, "stall-logs")
    os.makedirs(folder, exist_ok=True)
    with contextlib.closing(Quota(given.quota)) as quota:
        how = "by a control group" if quota.folder else "by stopping them so often, as there is no control group to be had"
    print(f"seed {given.seed}; {given.quota} % of a processor, {how}", flush=True)
    for number in test.STOPPING:
        signal.signal(number, interrupted)

    def planned():
        for seed in range(given.seed, given.seed + given.rounds):
            for suite in sorted(test.planned(given.builddir, wanted), key=lambda s: -test.LONG.get(s.suite, 0)):
                suite.log = os.path.join(folder, f"{suite.name.replace(' ', '-')}-{seed}.log")
                yield suite, seed

    # Of a round that was killed, its processes fall to this one.
    tree = Tree()
    try:
        rounds, whole = run(planned(), options, given)
    finally:
        tree.end()
    code = summarise(rounds, "" if whole else f"stopped; the logs so far are in {folder}")
    sys.exit(code if whole else 130)


if __name__ == "__main__":
    main()
