"""What all benchmarks share: the machine, the cores, temporary files, running programs, statistics, results."""
import collections
import contextlib
import datetime
import functools
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(BENCH, "build")
HEDDLE = os.path.join(os.path.dirname(BENCH), "bin", "heddle")
STATISTICS = os.path.join(BUILD, "bench-statistics")


class Unable(Exception):
    """Something is missing or refuses; the text says what, and what to do."""


# -------------------------------------------------------------------------------------------- runs


def prepare_process():
    """Before a run: signals end it through the finally blocks, so that nothing is left behind."""
    if not os.path.exists(STATISTICS):
        sys.exit(f"bench-statistics is not there; {how_to_get(STATISTICS)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    # Debian keeps nginx and lighttpd in sbin, which is not on every PATH.
    os.environ["PATH"] += ":/usr/sbin:/sbin"


def conclude(results, failures):
    """Print the results that programs read; the exit code."""
    print()
    for name, value in results.lines:
        print(f"RESULT {name} {value}")
    return 1 if failures else 0


# ------------------------------------------------------------------------------------------ machine


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


def machine():
    return f"{os.cpu_count()} cores, {processor()}, Linux {platform.release().partition('-')[0]}"


def core_counts(place):
    """The numbers of cores that a curve has places for: the powers of two that this machine reaches."""
    return [count for count in (1, 2, 4, 8, 16, 32) if count <= len(place.cores)]


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def said(*command):
    """What a command writes, without the last line's end; None where it fails."""
    try:
        done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """The commit of this checkout, with -dirty when files differ from it."""
    return said("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty") or "unknown"


# Debian's packages that a suite measures with, or against.
WEB = ("nginx", "h2o", "lighttpd", "wrk")
PACKAGES = {
    "io": ("wrk", "libghc-network-dev"),
    "serve": (*WEB, "mighttpd2", "libghc-warp-dev", "strace"),
    "wai": ("wrk", "libghc-warp-dev", "libghc-websockets-dev"),
    "tls": (*WEB, "libssl-dev"),
    "h2": (*WEB, "libssl-dev", "nghttp2-client"),
    "gateways": (*WEB, "php-fpm"),
    "operate": WEB,
    "openflow": ("openvswitch-testcontroller",),
    "par": ("libghc-monad-par-dev", "libghc-parallel-dev"),
    "find": ("findutils", "fd-find", "bfs"),
    "coroutine": ("libghc-conduit-dev", "libghc-pipes-dev", "ripgrep", "grep", "valgrind"),
    "rendezvous": ("golang-go",),
    "mpi": ("openmpi-bin", "mpich", "python3-mpi4py"),
    "bytes": ("libghc-aeson-dev", "libghc-attoparsec-dev", "libghc-hashable-dev", "libsimdjson-dev"),
    "growth": ("nginx", "wrk", "valgrind", "strace", "libghc-network-dev", "libghc-warp-dev", "libghc-monad-par-dev"),
}


def versions(suite):
    """The versions of those that are installed as packages; and of Go, which seldom is."""
    try:
        query = ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *PACKAGES.get(suite, ())]
        lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        lines = []
    known = dict(line.split() for line in lines if len(line.split()) == 2)
    go = said("go", "version") if suite == "rendezvous" else None
    return {**known, **({"golang-go": go.split()[2].removeprefix("go")} if go else {})}


def hard_limit():
    """As many descriptors as a process may have; root may have more than it was given."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 65536:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
            hard = 65536
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def processes(root):
    """A process and all that descend from it."""
    children = collections.defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    children[int(file.read().rpartition(")")[2].split()[1])].append(int(name))
    found, pending = [], [root]
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += children[pid]
    return found


def cpu_times(root):
    """User and system time of each process, threads that have ended included, in nanoseconds."""
    times = {}
    for pid in processes(root):
        with contextlib.suppress(OSError):
            times[pid] = time.clock_gettime_ns((~pid << 3) | 2)
    return times


def cpu_between(before, after):
    return sum(now - before.get(pid, 0) for pid, now in after.items())


def memory_bytes(root):
    """Proportional set size of all its processes."""
    total = 0
    for pid in processes(root):
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            for line in file:
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
    return total

# ------------------------------------------------------------------------------------------ programs


class Workplace:
    """The cores, a temporary folder, and everything that was started."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise Unable("one core for the server and one for the load are the minimum; this machine lends us one")
        self.cores = cores
        self.server_core, self.load_core = cores[0], cores[1]
        self.files = hard_limit()
        self.folder = tempfile.mkdtemp(prefix="heddle-bench-")
        os.chmod(self.folder, 0o755)
        self.started = []

    def start(self, command, cores, **options):
        def prepare():
            os.sched_setaffinity(0, cores)
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))

        process = subprocess.Popen(command, preexec_fn=prepare, **options)
        self.started.append(process)
        return process

    def stop(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        if process in self.started:
            self.started.remove(process)

    def close(self):
        for process in list(reversed(self.started)):
            self.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)


def how_to_get(program):
    if program.startswith(BUILD):
        return "run: make bench-programs"
    if program == HEDDLE:
        return "run: make build"
    return "run: make setup-bench"


def found(program):
    """Where a program is."""
    path = shutil.which(program)
    if path is None:
        raise Unable(f"{program} is not there; {how_to_get(program)}")
    return path


# ---------------------------------------------------------------------------------------- statistics


# What a sample says: an estimate with its 95 % interval, and the sample's own median and ends.
Summary = collections.namedtuple("Summary", "estimate lower upper median least most")


@functools.cache
def statistics_process():
    """heddle-measure's statistics (bench/measure/Statistics.hs): one process, which waits between the questions."""
    try:
        return subprocess.Popen([STATISTICS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError:
        raise Unable(f"bench-statistics is not there; {how_to_get(STATISTICS)}") from None


def summary(values, unit=None):
    """Of values in the order in which they were measured; of ratios by their logarithms."""
    kind = "ratios" if unit == "ratio" and min(values) > 0 else "values"
    process = statistics_process()
    process.stdin.write(" ".join([kind, *(repr(float(value)) for value in values)]) + "\n")
    process.stdin.flush()
    words = process.stdout.readline().split()
    if len(words) != len(Summary._fields):
        raise Unable(f"bench-statistics says nothing of {values}")
    return Summary(*map(float, words))


def spread(values, form, unit=None):
    """As it is printed: the estimate and its 95 % interval."""
    found = summary(values, unit)
    return f"{found.estimate:{form}} [{found.lower:{form}}, {found.upper:{form}}]"


def in_turn(names, rounds):
    """Every name in every round; the first changes from round to round. A terminal shows the progress."""
    names = list(names)
    for number in range(rounds):
        turn = number % len(names)
        for done, name in enumerate(names[turn:] + names[:turn]):
            progress(f"  round {number + 1} of {rounds}, {done} of {len(names)} measured")
            yield name
    progress("")


def progress(text):
    """Replaces the terminal's last line; nothing where the output is kept in a file."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def ratios(case, mine, theirs, results):
    """The ratio of two contenders' measurements of each round, printed and reported."""
    if min(theirs) <= 0:
        raise Unable(f"{case}: times of 0 are too small to compare")
    values = [ours / other for ours, other in zip(mine, theirs)]
    form = ".3f" if max(values) >= 0.01 else ".5f"
    print(f"  ratio {case}  {spread(values, form, 'ratio')}  {len(values)} rounds")
    results.ratio(case, values, form)


# ------------------------------------------------------------------------------------------- results


def slug(text):
    """A contender's name as it stands in the name of a result."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


class Results:
    """What a suite has measured: lines to print last, and all samples, to be kept in a file.

    Names are those that documents use: `CASE/PEER` is a ratio of Heddle's cost to the peer's, `CASE:CONTENDER:QUANTITY`
    is what one contender measured. A quantity ends with its unit: cpu_us, wall_ms, kb.
    """

    def __init__(self, suite, options, path=None, order=()):
        self.lines, self.path, self.case, self.order = [], path, None, {name: place for place, name in enumerate(order)}
        # Read now: the checkout may change during a long run.
        self.run = {
            "date": now(),
            "machine": machine(),
            "commit": commit(),
            "compilers": {"ghc": said("ghc", "--numeric-version"), "cc": said("gcc", "-dumpfullversion")},
            "versions": versions(suite),
            "options": {name: value for name, value in vars(options).items() if isinstance(value, (int, str)) and name != "keep"},
        }
        self.document = {"suite": suite, "runs": {}, "cases": []}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.document = json.load(file)

    def begin(self, name, title):
        self.case = {"case": name, "title": title, "run": self.run["date"], "values": {}}
        self.began = time.monotonic()

    def end(self):
        """After each case, so that a run that is interrupted keeps what it has; the case's old values are dropped."""
        print(f"  took {time.monotonic() - self.began:.0f} s", flush=True)
        if not self.path or not self.case["values"]:
            return
        cases = {case["case"]: case for case in self.document["cases"]}
        cases[self.case["case"]] = self.case | {"values": list(self.case["values"].values())}
        self.document["cases"] = sorted(cases.values(), key=lambda case: self.order.get(case["case"], len(self.order)))
        self.document["runs"][self.run["date"]] = {name: value for name, value in self.run.items() if name != "date"}
        used = {case["run"] for case in cases.values()}
        self.document["runs"] = {date: run for date, run in sorted(self.document["runs"].items()) if date in used}
        write_results(self.path, self.document)

    def ratio(self, name, values, form=".3f"):
        self.figure(name, values, "ratio", form)

    def figure(self, name, values, unit, form=".3f"):
        """A result with a line of its own: one number, or the samples from which it is estimated."""
        values = values if isinstance(values, list) else [values]
        number = values[0] if len(values) == 1 else summary(values, unit).estimate
        self.lines.append((name, f"{number:{form}}"))
        self.add(name, unit, values)

    def measured(self, case, contender, **quantities):
        """The samples of a contender, for each quantity."""
        for quantity, values in quantities.items():
            if values:
                self.add(f"{case}:{slug(contender)}:{quantity}", quantity.rpartition("_")[2], list(values))

    def add(self, name, unit, samples):
        if self.case is not None:
            self.case["values"][name] = {"name": name, "unit": unit, "samples": [digits(value) for value in samples]} | described(samples, unit)


def digits(value):
    return float(f"{value:.6g}")


def described(samples, unit):
    """What a file keeps of samples besides themselves; a single one has no interval."""
    found = summary(samples, unit)._asdict()
    return {name: digits(found[name]) for name in ("median", "least", "most", *(("estimate", "lower", "upper") if len(samples) > 1 else ()))}


def write_results(path, document):
    """One value on each line, so that a change of one can be read."""
    cases = []
    for case in document["cases"]:
        values = ",\n".join("    " + json.dumps(value, ensure_ascii=False) for value in case["values"])
        head = json.dumps({name: case[name] for name in ("case", "title", "run")}, ensure_ascii=False)
        cases.append(f'  {head[:-1]}, "values": [\n{values}\n  ]}}')
    runs = ",\n".join(f"  {json.dumps(date)}: {json.dumps(run, ensure_ascii=False)}" for date, run in document["runs"].items())
    text = f'{{"suite": {json.dumps(document["suite"])},\n "runs": {{\n{runs}\n }},\n "cases": [\n' + ",\n".join(cases) + "\n ]}\n"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)
