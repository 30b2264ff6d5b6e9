"""OpenFlow controllers: the cases of `run.py openflow`.

The controller has one core and the generator, `heddle ofbench`, the other. What is measured is the controller's CPU, kernel
included, for each request that was answered; each request counts once. The floor is bench/c/learning.c, the same learning
switch in C; ovs-testcontroller is Open vSwitch's.
"""
import re
import shutil
import statistics
import subprocess
import time

from harness import HEDDLE, Unable, core_counts, cpu_between, cpu_times, ratios, spread
from scaling import load_cores
from servers import Sample, Server, ServerPlace, c_twin, print_ratios, print_table, rounds_of, settled_memory, start_all


def heddle(app="learning", *more, cores=1):
    return lambda port: [HEDDLE, "controller", "--listen", f"127.0.0.1:{port}", "--app", app, "--cores", str(cores), "--quiet", *more]


def testcontroller(place):
    if shutil.which("ovs-testcontroller") is None:
        raise Unable("ovs-testcontroller is not there; run: make setup-bench")
    return lambda port: ["ovs-testcontroller", f"ptcp:{port}:127.0.0.1", "--unixctl", place.path(f"testcontroller-{port}.ctl")]


TEST_LINE = re.compile(
    r"1: (\d+) responses/s, latency us p50/p90/p99/p99.9/max ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+),"
    r" fairness ([\d.]+), connecting ([\d.]+) s(.*)"
)


class Load:
    """`heddle ofbench` with some arguments, once. The CPU is that between the end of the warming up and the end of the test."""

    def __init__(self, place, *arguments, warmup=1000, cores=None):
        self.place, self.arguments, self.warmup, self.last = place, arguments, warmup, None
        self.cores = cores or {place.load_core}

    def __call__(self, server, seconds):
        command = [HEDDLE, "ofbench", "-p", str(server.port), "-l", "1", "-m", str(1000 * seconds), "--warmup-ms", str(self.warmup), *self.arguments]
        before_all = cpu_times(server.process.pid)
        process = self.place.start(command, self.cores, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            process.stdout.readline()
            # Connecting takes less than the tenth of a second that is left out here.
            time.sleep(self.warmup / 1000 + 0.1)
            before, began = cpu_times(server.process.pid), time.monotonic()
            time.sleep(seconds - 0.3)
            cpu, took = cpu_between(before, cpu_times(server.process.pid)), time.monotonic() - began
            rest = process.stdout.read()
            process.wait(10)
        finally:
            self.place.stop(process)
        found = TEST_LINE.search(rest)
        if process.returncode != 0 or not found:
            raise Unable(f"{server.name}: ofbench failed: {rest.strip()}")
        self.last = found
        self.total = cpu_between(before_all, cpu_times(server.process.pid))
        rate = float(found.group(1))
        return Sample(cpu / 1000 / (rate * took), rate, float(found.group(2)), float(found.group(4)))


def compared(name, title, arguments, contenders, outstanding=None):
    def run(place, options, results):
        commands = {}
        for who, make in contenders.items():
            try:
                commands[who] = make(place)
            except Unable as reason:
                print(f"  without {reason}")
        servers = start_all(place, commands)
        load = Load(place, *arguments)
        fairness, bounds = {who: [] for who in servers}, {who: [] for who in servers}

        def watched(server, seconds):
            sample = load(server, seconds)
            fairness[server.name].append(float(load.last.group(7)))
            if outstanding:
                # Little's law: with full windows the mean is outstanding / throughput.
                mean = 1e6 * outstanding / sample.rate
                bounds[server.name].append((sample.p50_us / mean, sample.p99_us / mean))
            return sample

        try:
            samples = rounds_of(servers, watched, options)
        finally:
            for server in servers.values():
                server.stop()
        print_table(name, samples, results)
        print_ratios(name, samples, results)
        for who, rows in fairness.items():
            print(f"  {who:15} slowest switch / fastest {spread(rows, '.2f', 'ratio')}")
        if outstanding and "heddle" in bounds:
            results.figure(f"{name}-p50-bound", [p50 for p50, _ in bounds["heddle"]], "ratio")
            results.figure(f"{name}-p99-bound", [p99 for _, p99 in bounds["heddle"]], "ratio")
            results.figure(f"{name}-fairness", fairness["heddle"], "ratio", ".2f")

    return name, title, run


# As the paper's: 100 switches of 1,000 hosts, 512 requests unanswered each.
FULL = ("-s", "100", "-M", "1000", "-t")


def by_cores():
    """Figure 16, and of the greatest number of cores the distribution of Figure 17."""
    case = "openflow-cores"

    def run(place, options, results):
        servers, loads, times = {}, {}, {}
        counts = core_counts(place)
        try:
            for count in counts:
                cores = load_cores(place, count)
                if cores & set(place.cores[:count]):
                    print(f"  on {count} cores the load shares them with the controller")
                for name, command in {"heddle": heddle(cores=count), "c-twin": c_twin("learning", count)}.items():
                    try:
                        server = Server(place, f"{name}-on-{count}", command, cores=set(place.cores[:count]))
                    except Unable as reason:
                        print(f"  without {reason}")
                        continue
                    servers[server.name] = server
                    loads[server.name] = Load(place, *FULL, "--threads", str(len(cores)), cores=cores)
                    times[server.name] = []

            def load(server, seconds):
                sample = loads[server.name](server, seconds)
                times[server.name].append([float(loads[server.name].last.group(at)) for at in range(2, 7)])
                return sample

            samples = rounds_of(servers, load, options)
        finally:
            for server in servers.values():
                server.stop()
        print_table(case, samples, results)
        for name, rows in times.items():
            for share, values in zip(("p50", "p90", "p99", "p99.9", "p100"), zip(*rows[1:])):
                results.measured("openflow-times", name, **{f"{share}_us": list(values)})
        for count in counts:
            pair = [samples.get(f"{name}-on-{count}") for name in ("heddle", "c-twin")]
            if all(pair):
                ratios(f"{case}-{count}/c-twin", *([row.cpu_us for row in rows] for rows in pair), results)

    return case, "100 switches of 1,000 hosts, 512 requests unanswered each, by cores: throughput and latencies", run


TWIN = {"heddle": lambda place: heddle(), "c-twin": lambda place: c_twin("learning")}


def hosts():
    """The cost with a million hosts, against a thousand, of the same controller."""

    def run(place, options, results):
        samples = {}
        for hosts_each in ("10", "10000"):
            server = Server(place, "heddle", heddle("learning", "--max-hosts", "20000"))
            load = Load(place, "-s", "100", "-M", hosts_each, "-t", warmup=3000)
            try:
                load(server, 1)
                samples[hosts_each] = [load(server, options.seconds) for _ in range(options.rounds)]
            finally:
                server.stop()
        few, many = ([row.cpu_us for row in samples[n]] for n in ("10", "10000"))
        print(f"  1,000 hosts: {spread(few, '.3f')} CPU µs a request; 1,000,000 hosts: {spread(many, '.3f')}")
        ratios("openflow-hosts/million", many, few, results)

    return "openflow-hosts", "a million hosts against a thousand, 100 switches", run


def live_heap(place, switches):
    """The heap, that of the controller itself included, for each of that many switches, in bytes: +RTS -hT counts what is alive
    after a major collection."""
    server = Server(place, "heddle", heddle("learning", "+RTS", "-hT", "-i0.5", "-RTS"))
    try:
        Load(place, "-s", str(switches), "-M", "2", "--window", "1", "--rate", str(switches))(server, 4)
    finally:
        server.stop()
    sums = []
    with open(place.path("heddle.hp"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("BEGIN_SAMPLE"):
                sums.append(0)
            elif sums and "\t" in line:
                sums[-1] += int(line.rpartition("\t")[2])
    # The first is of a process that begins, the last of one that ends.
    return statistics.median(sums[1:-1]) / switches


def storm():
    def run(place, _options, results):
        server = Server(place, "heddle", heddle())
        try:
            before = settled_memory(server.process.pid)
            load = Load(place, "-s", "1000", "-M", "2", "--window", "1", "--rate", "1000", warmup=1000)
            process_memory = []

            def watched():
                sample = load(server, 3)
                process_memory.append(settled_memory(server.process.pid))
                return sample

            watched()
            connecting = float(load.last.group(8))
            print(f"  1,000 switches connected in {connecting:.2f} s")
            results.figure("openflow-connect", connecting, "s", ".2f")
            # All are connected while the next load runs; the memory is read in its middle.
            command = [HEDDLE, "ofbench", "-p", str(server.port), "-l", "1", "-m", "6000", "-w", "100", "-s", "1000", "-M", "2", "--window", "1", "--rate", "10"]
            process = place.start(command, {place.load_core}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(4)
                each = (settled_memory(server.process.pid) - before) / 1000
            finally:
                place.stop(process)
            print(f"  {each / 1024:.1f} KiB for a switch without work")
            results.figure("openflow-memory", each / 1024, "KiB", ".1f")
        finally:
            server.stop()
        live = live_heap(place, 1000) / 1024
        print(f"  {live:.1f} KiB of them live heap")
        results.figure("openflow-live", live, "KiB", ".1f")

    return "openflow-idle", "a thousand switches connect, and then have little to do", run


def open_loop():
    def run(place, options, results):
        server = Server(place, "heddle", heddle())
        try:
            load = Load(place, "-s", "16", "-M", "1000", "--window", "512", "--rate", "50000")
            load(server, 1)
            rows = [load(server, options.seconds) for _ in range(options.rounds)]
        finally:
            server.stop()
        print(f"  p50 {statistics.median(row.p50_us for row in rows):.1f} µs, p99 {statistics.median(row.p99_us for row in rows):.1f} µs from when a request was due")
        results.figure("openflow-open-p50", [row.p50_us for row in rows], "us", ".1f")
        results.figure("openflow-open-p99", [row.p99_us for row in rows], "us", ".1f")

    return "openflow-open", "50,000 requests a second in an open loop, 16 switches", run


CASES = [
    compared("openflow-full", "100 switches of 1,000 hosts, 512 requests unanswered each", list(FULL), TWIN, outstanding=51200),
    compared("openflow-one", "100 switches of 1,000 hosts, one request unanswered each", ["-s", "100", "-M", "1000"], TWIN),
    compared("openflow-full13", "the same as openflow-full, OpenFlow 1.3", ["-s", "100", "-M", "1000", "-t", "--of13"], {"heddle": lambda place: heddle()}),
    compared(
        "openflow-16",
        "16 switches of 100 hosts, 8 requests unanswered each",
        ["-s", "16", "-M", "100", "--window", "8"],
        {"heddle": lambda place: heddle(), "ovs-testcontroller": testcontroller},
    ),
    by_cores(),
    hosts(),
    storm(),
    open_loop(),
]
