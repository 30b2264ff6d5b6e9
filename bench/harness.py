"""What all benchmarks share: the machine, the cores, temporary files, programs under way, statistics."""
import collections
import contextlib
import datetime
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(BENCH, "build")
HEDDLE = os.path.join(os.path.dirname(BENCH), "bin", "heddle")


class Unable(Exception):
    """Something is missing or refuses; the text says what, and what to do."""


# -------------------------------------------------------------------------------------------- runs


def prepare_process():
    """Before a run: signals end it through the finally blocks, so that nothing is left behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    # Debian keeps nginx and lighttpd in sbin, which is not on everyone's PATH.
    os.environ["PATH"] += ":/usr/sbin:/sbin"


def conclude(results, failures):
    """Print the results that programs read; the exit code."""
    print()
    for name, value in results:
        print(f"RESULT {name} {value}")
    return 1 if failures else 0


# ------------------------------------------------------------------------------------------ machine


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return f"{now}  {os.cpu_count()} cores, {model}, Linux {platform.release()}"


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


def spread(values, form):
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def in_turn(names, rounds):
    """Every name in every round; the first changes from round to round."""
    names = list(names)
    for number in range(rounds):
        turn = number % len(names)
        yield from names[turn:] + names[:turn]


def ratios(case, mine, theirs, results):
    """The median of a ratio of each round, printed and reported."""
    values = [ours / other for ours, other in zip(mine, theirs)]
    form = ".3f" if statistics.median(values) >= 0.01 else ".5f"
    print(f"  ratio {case}  {spread(values, form)}  {len(values)} rounds")
    results.append((case, f"{statistics.median(values):{form}}"))
