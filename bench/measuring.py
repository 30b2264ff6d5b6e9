"""What heddle-measure promises, on this machine: the cases of `run.py measure`.

The program is bench/measure/Checks.hs, which uses the library as a benchmark program does. Nothing is compared with a peer:
a loop without the library, the first of many copies of a benchmark and a benchmark itself are what it is measured against.
"""
import contextlib
import os
import subprocess
import sys

from harness import BUILD, Unable, Workplace, how_to_get, progress, spread

COPIES, COPY_MS = 1000, 20
COMPARISONS, SAMPLES, SHORT = 1000, 20, 500
# Samples as long as the library's default, so that the system's scheduler interrupts some of them, and loops beside them.
BUSY_COMPARISONS, LONG, LOOPS = 100, 10000, 4
REPETITIONS = 2000
# Lengths of a sample in microseconds, and how many of them.
LENGTHS = {100: 400, 1000: 200, 10000: 40}


class MeasurePlace(Workplace):
    """One core."""

    def describe(self, options):
        return f"core {self.cores[0]}"

    def say(self, *words):
        """The lines that the program prints, as words."""
        program = os.path.join(BUILD, "bench-measure")
        if not os.path.exists(program):
            raise Unable(f"bench-measure is not there; {how_to_get(program)}")
        command = [program, *map(str, words)]
        process = self.start(command, {self.cores[0]}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, complaint = process.communicate(timeout=900)
        except subprocess.TimeoutExpired:
            raise Unable(f"{' '.join(command)} did not end within 15 minutes") from None
        finally:
            self.stop(process)
        if process.returncode != 0:
            said = complaint.strip().splitlines()[-1:] or ["nothing"]
            raise Unable(f"{' '.join(command)} ended with {process.returncode}; it said: {said[0]}")
        return [line.split()[1:] for line in output.splitlines()]


    @contextlib.contextmanager
    def busy(self, number):
        """Other programs on the same core, which never wait."""
        loops = [self.start([sys.executable, "-c", "while True: pass"], {self.cores[0]}) for _ in range(number)]
        try:
            yield
        finally:
            for loop in loops:
                self.stop(loop)


def drift():
    def run(place, options, results):
        ratio, lower, upper = (float(word) for word in place.say("drift", COPIES, COPY_MS)[0][:3])
        print(f"  the last {COPIES // 10} of {COPIES:,} copies took {ratio:.4f} [{lower:.4f}, {upper:.4f}] times as long as the first")
        results.figure("measure-drift-percent", 100 * abs(ratio - 1), "%", ".2f")

    return "drift", f"{COPIES:,} copies of a benchmark: the last against the first", run


def alarms():
    def run(place, options, results):
        found = int(place.say("alarms", COMPARISONS, SAMPLES, SHORT)[0][0])
        print(f"  {found} of {COMPARISONS:,} intervals of {SAMPLES} rounds do not contain 1")
        results.figure("measure-alarms-percent", 100 * found / COMPARISONS, "%", ".1f")

    return "alarms", f"{COMPARISONS:,} comparisons of a benchmark with itself", run


def busy_alarms():
    def run(place, options, results):
        with place.busy(LOOPS):
            found = int(place.say("alarms", BUSY_COMPARISONS, SAMPLES, LONG)[0][0])
        print(f"  {found} of {BUSY_COMPARISONS} intervals of {SAMPLES} rounds do not contain 1, beside {LOOPS} loops on the same core")
        results.figure("measure-busy-alarms-percent", 100 * found / BUSY_COMPARISONS, "%", ".1f")

    return "busy-alarms", f"{BUSY_COMPARISONS} comparisons of a benchmark with itself, on a busy core", run


def coverage():
    def run(place, options, results):
        for rho, number, percent in place.say("coverage", REPETITIONS):
            print(f"  {number:>4} values with a correlation of {rho}: {float(percent):.1f} % of the intervals contain the true value")
            results.figure(f"measure-coverage-percent/{number}-correlation-{rho}", float(percent), "%", ".1f")

    return "coverage", "intervals of synthetic correlated samples whose true value is known", run


def overhead():
    def run(place, options, results):
        for length, number in LENGTHS.items():
            values = []
            for done in range(options.rounds):
                progress(f"  samples of {length} µs: round {done + 1} of {options.rounds}")
                values.append(float(place.say("overhead", length, number)[0][0]))
            progress("")
            print(f"  samples of {length:>6,} µs: {spread(values, '.3f', 'ratio')} times as long as a loop without the library")
            results.ratio(f"measure-overhead-{length}us/bare-loop", values)

    return "overhead", "sampling against a loop that does the work as often", run


CASES = [drift(), alarms(), busy_alarms(), coverage(), overhead()]
