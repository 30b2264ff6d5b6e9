#!/usr/bin/env python3
"""Measures Heddle in this checkout against Heddle in another one, program by program.

usage: against.py DIR [--suite NAME]... [--only NAME]... [--rounds N] [--seconds S] [--tree DIR] [--list] [--keep FILE]

DIR is another checkout of Heddle in which `make bench-programs` was run. The Haskell programs come from both
checkouts in turn; the loads, the texts and the settings (sizes, allocation areas) are the same for both. The first
of the two changes from round to round. The last lines are `RESULT <suite>/<case> <ratio>`: above 1 where this
checkout needs more.

Ratios are of CPU time for one-core cases and of wall time where cores or ranks work together.
"""
import argparse
import collections
import contextlib
import os
import sys

import bytework
import coroutines
import finding
import mpi
import parallel
import rendezvous
import servers
from harness import BENCH, BUILD, Results, Unable, conclude, in_turn, machine, now, prepare_process, ratios, spread

ROOT = os.path.dirname(BENCH)
# What belongs to a checkout; the loads and the C twins are always those of this one.
OWN_PROGRAMS = (os.path.join(ROOT, "bin", ""), os.path.join(BUILD, "bench-"))

# `prepare(place, options)` settles sizes and answers with a measurement of one sample, lower is better.
Case = collections.namedtuple("Case", "name prepare unit")


class OtherCheckout:
    """Makes a place start the programs of one checkout or the other."""

    def __init__(self, place, directory):
        self.place, self.directory, self.away = place, directory, False
        self.start_here = place.start
        place.start = self.start

    def start(self, command, *more, **options):
        return self.start_here([self.moved(word) for word in command] if self.away else command, *more, **options)

    def moved(self, word):
        if not word.startswith(OWN_PROGRAMS):
            return word
        path = self.directory + word[len(ROOT) :]
        if not os.access(path, os.X_OK):
            raise Unable(f"{path} is not there; run `make bench-programs` in {self.directory}")
        return path

    @contextlib.contextmanager
    def side(self, name):
        self.away = name == "there"
        try:
            yield
        finally:
            self.away = False


# -------------------------------------------------------------------------------------------- cases


def served(name, command, load):
    """CPU microseconds of a server for each request; both checkouts' servers stay up."""

    def prepare(place, options):
        running, weight = {}, load(place)

        def measure(side):
            if side not in running:
                running[side] = servers.Server(place, "heddle", command(place))
                weight(running[side], 1)
            return weight(running[side], options.seconds).cpu_us

        return measure

    return Case(name, prepare, "CPU µs/request")


def server_cases(suite):
    def own(name):
        return lambda place: servers.own(name)

    def logging(place):
        return servers.heddle(place, "--access-log", place.path("access.log"))

    if suite == "io":
        for connections in (64, 400):
            yield served(f"fixed-{connections}", own("bench-fixed-heddle"), lambda place, n=connections: servers.wrk(place, n, "/"))
        for connections in (1, 64):
            yield served(f"echo-{connections}", own("bench-echo-heddle"), lambda place, n=connections: servers.echoload(place, n))
    else:
        for label, path in (("151B", "/151.html"), ("16KB", "/16k.html")):
            yield served(f"static-{label}", servers.heddle, lambda place, path=path: servers.wrk(place, 64, path))
        yield served("access-log", logging, lambda place: servers.wrk(place, 64, "/151.html"))


def always(setting, measure):
    """A case whose setting is found once, by this checkout's programs."""

    def prepare(place, options):
        found = setting(place)
        return lambda _side: measure(place, found)

    return prepare


def par_cases():
    def case(name, work, how, clock):
        who = parallel.Contender("heddle", how)
        prepare = always(lambda _place: None, lambda place, _: getattr(place.once(who, work, "4m"), clock))
        return Case(f"{name}{how}", prepare, clock.replace("_", " "))

    yield case("fork", ("fork", 1000000, 1), "-N1", "cpu_ms")
    for name, (size, grain, _) in parallel.FINE.items():
        for how in ("-N1", "-N2"):
            yield case(f"{name}-fine", (name, size, grain), how, "cpu_ms")
    for name in ("fib", "queens"):
        size, grain, _ = parallel.COARSE[name]
        yield case(name, (name, size, grain), "-N2", "wall_ms")


def rendezvous_cases():
    def case(name, how, work):
        who, clock = rendezvous.Contender("heddle", how, work), "cpu" if how == "-N1" else "wall"
        prepare = always(lambda place: place.setting(who), lambda place, setting: getattr(place.once(who, setting), clock))
        return Case(f"{name}{how}", prepare, f"{clock} ns")

    for how in ("-N1", "-N2"):
        for n in (2, 10, 100, 800):
            yield case(f"table1-{n}", how, (n,))
        yield case("pipeline-0us", how, ("pipeline", rendezvous.STAGES, 0))


def coroutine_cases():
    def case(name, job, way, stages=None):
        who = coroutines.Contender(job, way, stages)

        def setting(place):
            n = coroutines.PRIMES if job == "sieve" else place.size(who)
            return n, place.area(who, n)

        def measure(place, found):
            n, area = found
            return place.sample(who, n, area).cpu / n

        return Case(name, always(setting, measure), "CPU ns")

    def command(name, expression):
        def measure(place, log):
            return place.timed(coroutines.pipe_command(1, expression, log), {place.cores[0]}).cpu_ms

        return Case(name, always(lambda place: place.text(), measure), "CPU ms")

    yield case("hop", "hop", "pipe", coroutines.MANY)
    yield case("hop-coroutine", "hop", "coroutine", coroutines.MANY)
    yield case("sieve", "sieve", "pipe")
    yield case("binds", "binds", "pipe")
    for suffix in ("", "-four", "-actions", "-zip", "-scan", "-both"):
        yield case(f"fused{suffix}", "fused", f"flow{suffix}")
    yield command("grep-count", f'count row having "{coroutines.WANTED}"')
    yield command("grep-number", f'select row having "{coroutines.WANTED}" numbered')
    yield command("count-rows", "count row")
    yield command("upper", "upper | count row")


def mpi_cases():
    rounds, times, mb = mpi.ROUNDS, mpi.TIMES, mpi.MEGABYTE
    programs = {
        "pingpong-8": mpi.haskell("pingpong", "bytes", 8, rounds, times),
        "pingpong-value": mpi.haskell("pingpong", "value", rounds, times),
        "pingpong-simple": mpi.haskell("pingpong-simple", rounds, times),
        "allreduce-8": mpi.haskell("allreduce", mpi.DOUBLES, rounds, times),
        "bandwidth": mpi.haskell("bandwidth", mb, mpi.MESSAGES, times),
    }

    def case(name, which, command):
        who = mpi.Contender("Heddle", command, lambda _answer: True)

        def measure(place, _):
            if which not in place.mpis:
                raise Unable(f"{which} is not installed; run: make setup")
            return place.sample(which, 2, who).wall

        return Case(f"{name}/{which}", always(lambda _place: None, measure), "wall ns")

    for which in mpi.LAUNCHERS:
        for name, command in programs.items():
            yield case(name, which, command)


def find_cases():
    def case(name, field, command, times=finding.TIMES):
        def measure(place, root):
            return getattr(place.timed(command(root), times), field)

        def prepare(place, options):
            root = place.path("ten") if name.startswith("tiny") else place.tree(options)
            if name.startswith("tiny") and not os.path.isdir(root):
                os.mkdir(root)
                for number in range(10):
                    with open(os.path.join(root, f"file-{number}"), "wb"):
                        pass
            place.timed(command(root), 1)
            return lambda _side: measure(place, root)

        return Case(name, prepare, field.replace("_", " "))

    yield case("walk-j1", "cpu_ms", finding.heddle)
    yield case("walk-j2", "wall_ms", lambda root: finding.heddle(root, jobs=2))
    yield case("walk-ordered-j2", "wall_ms", lambda root: finding.heddle(root, "--ordered", jobs=2))
    yield case("tiny", "wall_ms", lambda root: [finding.HEDDLE, "find", root], 50)


def byte_cases():
    def case(program, way):
        who = bytework.Contender(f"bench-bytes-{program}", way)
        prepare = always(lambda place: place.size([who]), lambda place, n: place.once(who, n).cpu / n)
        return Case(f"{program}-{way}", prepare, "CPU ns")

    for way in ("heddle-blocks", "heddle", "heddle-small"):
        yield case("decimals", way)
    for way in ("write-heddle", "read-heddle"):
        yield case("doubles", way)
    for what in ("validate", "totext", "encode", "replace"):
        yield case("utf8", f"{what}-mixed-32k-heddle")
    for name in bytework.DOCUMENTS:
        yield case("encode", f"heddle-{name}")
        yield case("decode", f"heddle-{name}")
        yield case("check", f"check-{name}")
        yield case("check", f"minify-{name}")
    for size in (8, 64, 4096):
        yield case("hash", f"sip13-heddle-{size}")


SUITES = {
    "io": (servers.ServerPlace, lambda: server_cases("io")),
    "serve": (servers.ServerPlace, lambda: server_cases("serve")),
    "par": (parallel.ParallelPlace, par_cases),
    "rendezvous": (rendezvous.RendezvousPlace, rendezvous_cases),
    "coroutine": (coroutines.CoroutinePlace, coroutine_cases),
    "mpi": (mpi.MpiPlace, mpi_cases),
    "find": (finding.FindPlace, find_cases),
    "bytes": (bytework.BytePlace, byte_cases),
}


# --------------------------------------------------------------------------------------------- runs


def compare(suite, case, place, checkout, options, results):
    samples = {"here": [], "there": []}
    try:
        measure = case.prepare(place, options)
        for side in in_turn(samples, options.rounds):
            with checkout.side(side):
                samples[side].append(measure(side))
    finally:
        for process in list(reversed(place.started)):
            place.stop(process)
    here, there = (spread(values, ".5g") for values in samples.values())
    print(f"  {case.name:26} {here:>36}  {there:>36}  {case.unit}", flush=True)
    results.begin(f"{suite}/{case.name}", case.unit)
    for side, values in samples.items():
        results.measured(f"{suite}/{case.name}", side, sample=values)
    ratios(f"{suite}/{case.name}", samples["here"], samples["there"], results)
    results.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the other checkout")
    parser.add_argument("--suite", action="append", choices=sorted(SUITES), help="only this suite; may be repeated")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (5)")
    parser.add_argument("--seconds", type=int, default=3, help="io, serve: how long each time (3)")
    parser.add_argument("--tree", metavar="DIR", default="/usr", help="find: what is searched (/usr)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--keep", metavar="FILE", help="record all samples in this file")
    options = parser.parse_args()
    suites = {name: SUITES[name] for name in SUITES if not options.suite or name in options.suite}
    if options.list:
        for suite, (_, cases) in suites.items():
            print(f"{suite:12} {' '.join(case.name for case in cases())}")
        return 0
    if options.directory is None or not os.path.isdir(os.path.join(options.directory, "bench")):
        parser.error("give the other checkout: against.py DIR, or make bench-against OLD=DIR")
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    known = {case.name for _, cases in suites.values() for case in cases()}
    unknown = set(options.only or []) - known
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; see --list")

    prepare_process()
    print(f"{now()}  {machine()}")
    results, failures = Results("against", options, options.keep), 0
    for suite, (new_place, cases) in suites.items():
        chosen = [case for case in cases() if not options.only or case.name in options.only]
        if not chosen:
            continue
        print(f"\n{suite}: {'here':>54}  {'there':>36}", flush=True)
        try:
            place = new_place()
        except Unable as reason:
            failures += 1
            print(f"  not measured: {reason}")
            continue
        checkout = OtherCheckout(place, os.path.abspath(options.directory))
        try:
            for case in chosen:
                try:
                    compare(suite, case, place, checkout, options, results)
                except Unable as reason:
                    failures += 1
                    print(f"  {case.name}: not measured: {reason}", flush=True)
        finally:
            place.close()
    return conclude(results, failures)


if __name__ == "__main__":
    sys.exit(main())
