#!/usr/bin/env python3
"""Measures Heddle's hot paths as several compilers have built them against the same C twins, in turn within each round.

usage: compilers.py VERSION=DIR... [--only NAME]... [--rounds N] [--seconds S] [--tree DIR] [--list] [--keep [FILE]]

VERSION is a GHC's and DIR a checkout of Heddle in which that GHC has built the programs (bench/build/bench-*, bin/heddle); the
C twins and the loads are those of this checkout, and every program runs on this machine's libraries. So the newest release
should run them: a program built in an older one runs in a newer one.

Ratios are of CPU time to the C twin in the same round; the last column compares them with the first VERSION's. Some cases have
no twin in C: they are compared with the first VERSION. --keep records all samples in docs/results/compilers/bench.json, from which
`make compilers` writes the table of docs/library.md.
"""
import argparse
import collections
import os
import statistics
import sys

import bytework
import coroutines
import finding
import parallel
import rendezvous
import servers
from against import OtherCheckout
from harness import BENCH, Results, Unable, conclude, in_turn, machine, now, prepare_process, spread

KEPT = os.path.join(os.path.dirname(BENCH), "docs", "results", "compilers", "bench.json")

# `ours` and `twin` prepare a measurement, as `prepare(place, options)`; a measurement gives CPU time, lower is better.
Case = collections.namedtuple("Case", "name title unit new_place ours twin")


# -------------------------------------------------------------------------------------------- cases


def bytes_case(name, title, ours, twin):
    """Both do the work equally often."""

    def prepare(who):
        def measurement(place, options):
            if not hasattr(place, "sizes"):
                place.sizes = {}
            if name not in place.sizes:
                place.sizes[name] = place.size([ours, twin])
            return lambda: place.once(who, place.sizes[name]).cpu / place.sizes[name]

        return measurement

    return Case(name, title, "ns", bytework.BytePlace, prepare(ours), prepare(twin))


def rendezvous_case(members):
    def prepare(library):
        def measurement(place, options):
            who = rendezvous.Contender(library, "-N1", (members,))
            setting = place.setting(who)
            return lambda: place.once(who, setting).cpu

        return measurement

    title = f"a rendezvous of {members} branches, one core"
    return Case(f"rendezvous-{members}", title, "ns", rendezvous.RendezvousPlace, prepare("heddle"), prepare("c"))


def fused_case(name, title, ours, twin):
    def prepare(way):
        def measurement(place, options):
            who = coroutines.Contender("fused", way)
            n = place.size(who)
            area = place.area(who, n)
            return lambda: place.sample(who, n, area).cpu / n

        return measurement

    return Case(name, title, "ns", coroutines.CoroutinePlace, prepare(ours), prepare(twin) if twin else None)


def fork_case():
    def measurement(place, options):
        who = parallel.Contender("heddle", "-N1")
        return lambda: place.once(who, ("fork", 1000000, 1), "4m").cpu_ms

    return Case("fork", "a million tasks of heddle-par, one core", "ms", parallel.ParallelPlace, measurement, None)


def fixed_case():
    def prepare(command):
        def measurement(place, options):
            load, running = servers.wrk(place, 64, "/"), []

            def measure():
                if not running:
                    running.append(servers.Server(place, "server", command))
                    load(running[0], 1)
                return load(running[0], options.seconds).cpu_us

            return measure

        return measurement

    ours, twin = servers.own("bench-fixed-heddle"), servers.c_twin("fixed")
    return Case("fixed-64", "a fixed HTTP response, 64 connections", "µs", servers.ServerPlace, prepare(ours), prepare(twin))


def find_case():
    def prepare(command):
        def measurement(place, options):
            root = place.tree(options)
            place.timed(command(root), 1)
            return lambda: place.timed(command(root), 1).cpu_ms

        return measurement

    return Case("find", "heddle find, one core", "ms", finding.FindPlace, prepare(finding.heddle), prepare(finding.c_walk))


def byte_cases():
    def case(name, title, program, way, twin, twins_way):
        return bytes_case(name, title, bytework.Contender(f"bench-bytes-{program}", way), bytework.Contender(twin, twins_way))

    for text in ("ascii", "mixed"):
        what = f"validate-{text}-32k"
        yield case(f"utf8-{text}", f"32 KB of {text} UTF-8 validated", "utf8", f"{what}-heddle", "bytes_utf8_simdjson", f"{what}-simdjson")
    yield case("decimal", "a whole number written", "decimals", "heddle", "bytes_decimal", "swar")
    for name in ("twitter", "records"):
        yield case(f"json-{name}", f"{name}.json checked", "check", f"check-{name}", "bytes_json_simdjson", f"simdjson-{name}")
    for size in (16, 512):
        yield case(f"sip13-{size}", f"SipHash-1-3 of {size} bytes", "hash", f"sip13-heddle-{size}", "bytes_siphash", f"sip13-{size}")


FLOWS = [
    fused_case("flow", "an element through five fused stages, of which one is a loop in the loop", "flow", "c"),
    fused_case("flow-four", "an element through four fused stages", "flow-four", None),
    fused_case("flow-scan", "an element through two fused scans", "flow-scan", None),
]

CASES = [*byte_cases(), *FLOWS, fork_case(), rendezvous_case(2), rendezvous_case(10), find_case(), fixed_case()]


# --------------------------------------------------------------------------------------------- runs


def contest(case, builds, options, results):
    """Each build and the twin in every round."""
    place = case.new_place()
    try:
        checkout = OtherCheckout(place, "")
        measures = {}
        for version, directory in builds.items():
            checkout.directory = directory
            with checkout.side("there"):
                measures[version] = case.ours(place, options)
        if case.twin:
            measures["C"] = case.twin(place, options)
        samples = {who: [] for who in measures}
        for who in in_turn(measures, options.rounds):
            if who == "C":
                samples[who].append(measures[who]())
            else:
                checkout.directory = builds[who]
                with checkout.side("there"):
                    samples[who].append(measures[who]())
    finally:
        place.close()
    first = next(iter(builds))
    base = samples["C" if case.twin else first]
    for who, values in samples.items():
        results.measured(case.name, who, **{f"cpu_{case.unit.replace('µ', 'u')}": values})
    found = {}
    for version in builds:
        quotients = [ours / other for ours, other in zip(samples[version], base)]
        found[version] = statistics.median(quotients)
        against = f"{100 * (found[version] / found[first] - 1):+.1f} %"
        print(f"  {case.name:14} {version:8} {spread(samples[version], '.5g'):>34} {case.unit}   ratio {spread(quotients, '.3f', 'ratio')}   {against}")
        results.ratio(f"{case.name}/{version}", quotients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", metavar="VERSION=DIR", nargs="*", help="a compiler and the checkout that it has built")
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured (9)")
    parser.add_argument("--seconds", type=int, default=2, help="how long a server is measured each time (2)")
    parser.add_argument("--tree", metavar="DIR", default="/usr", help="what is searched (/usr)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--keep", metavar="FILE", nargs="?", const=KEPT, help="record all samples (docs/results/compilers/bench.json)")
    options = parser.parse_args()
    if options.list:
        for case in CASES:
            print(f"{case.name:14} {case.title}")
        return 0
    builds = {}
    for word in options.builds:
        version, equals, directory = word.partition("=")
        if not equals or not os.path.isdir(os.path.join(directory, "bench", "build")):
            parser.error(f"not VERSION=DIR with a folder DIR/bench/build: {word}")
        builds[version] = os.path.abspath(directory)
    if len(builds) < 2:
        parser.error('name two builds at least: make bench-compilers BENCH="9.0.2=DIR 9.6.6=DIR"')
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")

    prepare_process()
    print(f"{now()}  {machine()}")
    results, failures = Results("compilers", options, options.keep, [case.name for case in CASES]), 0
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        print(f"\n{case.name}: {case.title}", flush=True)
        results.begin(case.name, case.title)
        try:
            contest(case, builds, options, results)
            results.end()
        except Unable as reason:
            failures += 1
            print(f"  not measured: {reason}", flush=True)
    return conclude(results, failures)


if __name__ == "__main__":
    sys.exit(main())
