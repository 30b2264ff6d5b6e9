#!/usr/bin/env python3
"""Measures Heddle against C, GHC's own event manager, other servers, other libraries, other finds and greps, MPI.

usage: run.py io|serve|wai|tls|h2|gateways|operate|trace|openflow|par|rendezvous|coroutine|find|mpi|bytes|growth|measure [--rounds N] [--seconds S] [--tree DIR] [--trapezoids N]
              [--lines N] [--reloads N] [--only NAME]... [--list] [--keep [FILE]]

All contenders of a case run in turn within each round, and a ratio compares two measurements of one round;
numbers from different runs do not compare. The last lines are `RESULT <case>/<contender> <ratio>`, below 1 where
Heddle needs less. `--keep` records the samples of every case that was measured in docs/results/SUITE.json, in place
of those recorded before; `make results` then writes them into the documents.

Files are in a temporary folder. However the run ends, all programs are stopped and the folder is removed.
"""
import argparse
import os
import sys

import bytework
import coroutines
import filters
import finding
import fronts
import gateways
import growth
import measuring
import mpi
import openflow
import operate
import parallel
import rendezvous
import scaling
import servers
import tracing
from harness import BENCH, Results, Unable, conclude, machine, now, prepare_process

SUITES = {
    "io": (servers.ServerPlace, servers.CASES["io"] + scaling.IO_CASES),
    "serve": (servers.ServerPlace, servers.CASES["serve"] + scaling.SERVE_CASES),
    "wai": (servers.ServerPlace, fronts.CASES["wai"]),
    "tls": (fronts.FrontPlace, fronts.CASES["tls"]),
    "gateways": (gateways.GatewayPlace, gateways.CASES),
    "h2": (fronts.FrontPlace, fronts.CASES["h2"]),
    "operate": (operate.OperatePlace, operate.CASES),
    "trace": (servers.ServerPlace, tracing.CASES),
    "openflow": (servers.ServerPlace, openflow.CASES),
    "par": (parallel.ParallelPlace, parallel.CASES),
    "rendezvous": (rendezvous.RendezvousPlace, rendezvous.CASES),
    "coroutine": (coroutines.CoroutinePlace, coroutines.CASES + filters.CASES),
    "mpi": (mpi.MpiPlace, mpi.CASES),
    "growth": (growth.GrowthPlace, growth.CASES),
    "find": (finding.FindPlace, finding.CASES),
    "bytes": (bytework.BytePlace, bytework.CASES),
    "measure": (measuring.MeasurePlace, measuring.CASES),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--rounds", type=int, default=5, help="how often each contender is measured (5)")
    parser.add_argument("--seconds", type=int, default=3, help="io, serve, wai, tls, trace, openflow: how long each time (3)")
    parser.add_argument("--tree", metavar="DIR", default="/usr", help="find: what is searched (/usr)")
    parser.add_argument("--trapezoids", type=int, metavar="N", default=10**8, help="mpi: how many (100000000)")
    parser.add_argument("--lines", type=int, metavar="N", default=10**6, help="operate: log lines until the last SIGKILL (1000000)")
    parser.add_argument("--reloads", type=int, metavar="N", default=1000, help="operate: how many, and a hundredth as many upgrades (1000)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--keep", metavar="FILE", nargs="?", const="", help="record all samples (docs/results/SUITE.json)")
    options = parser.parse_args()
    new_place, cases = SUITES[options.suite]
    if options.list:
        for name, title, _ in cases:
            print(f"{name:18} {title}")
        return 0
    unknown = set(options.only or []) - {name for name, _, _ in cases}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; the cases are {', '.join(name for name, _, _ in cases)}")
    if min(options.rounds, options.seconds, options.trapezoids, options.reloads) < 1 or options.lines < 10:
        parser.error("--rounds, --seconds, --trapezoids and --reloads must be at least 1, --lines at least 10")

    prepare_process()
    print(f"{now()}  {machine()}")
    kept = os.path.join(os.path.dirname(BENCH), "docs", "results", f"{options.suite}.json")
    order = [name for name, _, _ in cases]
    results = Results(options.suite, options, kept if options.keep == "" else options.keep, order)
    failures = 0
    try:
        place = new_place()
    except Unable as reason:
        sys.exit(f"run.py: {reason}")
    try:
        print(place.describe(options))
        chosen = [case for case in cases if not options.only or case[0] in options.only]
        for number, (name, title, run) in enumerate(chosen, 1):
            print(f"\n[{number}/{len(chosen)}] {name}: {title}", flush=True)
            results.begin(name, title)
            try:
                run(place, options, results)
                results.end()
            except Unable as reason:
                failures += 1
                print(f"  not measured: {reason}", flush=True)
    finally:
        place.close()
    return conclude(results, failures)


if __name__ == "__main__":
    sys.exit(main())
