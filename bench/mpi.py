"""MPI in Haskell against MPI in C and mpi4py: the cases of `run.py mpi`.

The programs are those of bench/mpi and their twins bench/c/mpi_*.c, which are built once for each MPI. All
are started by bin/heddle-mpirun, so that all have the same settings: no rank is bound to a core. They read
the clocks themselves, between the start and the end of MPI. A sample is the lower quartile of many short
times within one run, for every contender: both cores are busy, so other work on the machine disturbs some
of the times. Where two ranks work at once the ratios are of wall time. Every answer is checked.

With more ranks than cores the ranks take turns, and the numbers say more about the system than about a library.
"""
import collections
import math
import os
import subprocess

from harness import BENCH, BUILD, HEDDLE, Unable, Workplace, how_to_get, in_turn, ratios, spread

MPIRUN = os.path.join(os.path.dirname(HEDDLE), "heddle-mpirun")
# Debian's mpi4py belongs to Debian's Python.
PYTHON = "/usr/bin/python3"
LAUNCHERS = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}
# Variables of an enclosing job, or of the user, that would change a job.
FOREIGN = ("OMPI_", "PMI", "HEDDLE_MPI", "HYDI_", "HYDRA_", "MPICH_", "MPIR_")
# A sample is a quartile of this many times in one run.
TIMES = 60
LIMIT = 900

MEGABYTE = 1 << 20
MESSAGES = 160
ROUNDS = 3000
DOUBLES = 1
OUTSTANDING = 5000
WAITING = 1000
COLLECTIONS = 2000

# A program's command line, and the check of its answer.
Contender = collections.namedtuple("Contender", "name command answer")

# Nanoseconds of wall time, and of CPU time of rank 0, for a step; and what came out.
Sample = collections.namedtuple("Sample", "wall cpu answer")


class MpiPlace(Workplace):
    """The MPIs that are installed, and jobs."""

    def __init__(self):
        super().__init__()
        if not os.path.exists(MPIRUN):
            raise Unable(f"{MPIRUN} is not there; {how_to_get(HEDDLE)}")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.mpis = [mpi for mpi, launcher in LAUNCHERS.items() if self.is_installed(mpi, launcher)]
        if not self.mpis:
            raise Unable("there is neither Open MPI nor MPICH; run: make setup")

    @staticmethod
    def is_installed(mpi, launcher):
        there = any(os.access(os.path.join(folder, launcher), os.X_OK) for folder in os.get_exec_path())
        return there and os.path.exists(os.path.join(BUILD, f"mpi_pingpong.{mpi}"))

    def describe(self, options):
        load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
        return (
            f"{' and '.join(self.mpis)}; {len(self.cores)} cores, ranks not bound; {options.rounds} rounds; "
            f"estimate [95 % interval]; load before: {load}"
        )

    def job(self, mpi, ranks, command, *more):
        """What a job of this many ranks has written; `alone` without a launcher."""
        program = command[0]
        if not os.path.exists(program):
            raise Unable(f"{os.path.basename(program)} is not there; {how_to_get(program)}")
        launch = [] if mpi == "alone" else [MPIRUN, "--mpi", mpi, "-n", str(ranks), *more]
        process = self.start(
            [*launch, *command],
            set(self.cores),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
        words = " ".join(map(os.path.basename, command))
        try:
            output, complaint = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Unable(f"{words} under {mpi} did not end within {LIMIT} s") from None
        finally:
            self.stop(process)
        if process.returncode != 0:
            said = complaint.decode(errors="replace").strip().splitlines()[:1] or ["nothing"]
            raise Unable(f"{words} under {mpi} ended with {process.returncode}; it said: {said[0]}")
        return [line.split() for line in output.decode(errors="replace").splitlines()]

    def sample(self, mpi, ranks, who):
        rows = [Sample(*map(float, row[1:])) for row in self.job(mpi, ranks, who.command) if row[:1] == ["timed"]]
        if not rows:
            raise Unable(f"{who.name} under {mpi} has measured nothing")
        for row in rows:
            if not who.answer(row.answer):
                raise Unable(f"{who.name} under {mpi} says {row.answer}, which is wrong")
        return Sample(quartile(row.wall for row in rows), quartile(row.cpu for row in rows), rows[0].answer)


def quartile(values):
    """A quarter of the values is below; of one value, that."""
    values = sorted(values)
    return values[len(values) // 4]


def haskell(name, *arguments):
    return [os.path.join(BUILD, f"bench-mpi-{name}"), *map(str, arguments)]


def c(mpi, name, *arguments):
    return [os.path.join(BUILD, f"mpi_{name}.{mpi}"), *map(str, arguments)]


def exactly(number):
    return lambda answer: answer == number


# ------------------------------------------------------------------------------------------ contests


def contest(place, mpi, ranks, contenders, options):
    """Samples of each in turn; those that cannot run are left out."""
    samples = {}
    for who in contenders:
        if os.path.exists(who.command[0]):
            samples[who.name] = []
        else:
            print(f"  without {who.name}: {os.path.basename(who.command[0])} is not there")
    named = {who.name: who for who in contenders}
    for name in in_turn(samples, options.rounds) if samples else ():
        if name in samples:
            try:
                samples[name].append(place.sample(mpi, ranks, named[name]))
            except Unable as reason:
                print(f"  without {name}: {reason}", flush=True)
                del samples[name]
    return samples


def walls(samples, name):
    return [sample.wall for sample in samples[name]]


def table(case, mpi, samples, unit, scale, results):
    for name, rows in samples.items():
        wall, cpu = [row.wall / scale for row in rows], [row.cpu / scale for row in rows]
        print(f"  {mpi:8} {name:14} {spread(wall, '.3f'):>30} {unit}  CPU of rank 0 {spread(cpu, '.3f'):>30}", flush=True)
        results.measured(f"{case}/{mpi}", name, **{f"wall_{unit}": wall, f"cpu_{unit}": cpu})


def compare(case, samples, mine, theirs, results):
    if samples.get(mine) and samples.get(theirs):
        ratios(case, walls(samples, mine), walls(samples, theirs), results)


def on_both(case, ranks, contenders, unit, scale, pairs):
    """A case whose contenders depend on the MPI only; `pairs` are compared."""

    def run(place, options, results):
        for mpi in place.mpis:
            samples = contest(place, mpi, ranks, contenders(mpi), options)
            table(case, mpi, samples, unit, scale, results)
            for label, mine, theirs in pairs:
                compare(f"{case}{label}/{mpi}", samples, mine, theirs, results)
            if "Heddle" not in samples:
                raise Unable(f"Heddle did not run under {mpi}")

    return run


# ------------------------------------------------------------------------------------------ figure 2


def near_zero(answer):
    # The integral over whole periods is 0.
    return math.isfinite(answer) and abs(answer) < 1e-5


def trapezoid():
    def contenders(mpi, n):
        return [
            Contender("Heddle", haskell("trapezoid", "gather", n, 1), near_zero),
            Contender("Heddle, point", haskell("trapezoid", "point", n, 1), near_zero),
            Contender("C", c(mpi, "trapezoid", "gather", n, 1), near_zero),
        ]

    def run(place, options, results):
        n = options.trapezoids
        for mpi in place.mpis:
            # One and two ranks within one round: the efficiency is of a round.
            every = {(ranks, who.name): who for ranks in (1, 2) for who in contenders(mpi, n)}
            samples = {key: [] for key in every}
            for key in in_turn(every, options.rounds):
                samples[key].append(place.sample(mpi, key[0], every[key]))
            for ranks in (1, 2):
                own = {name: rows for (number, name), rows in samples.items() if number == ranks}
                print(f"  {ranks} rank{'s' if ranks > 1 else ''}, {n:,} trapezoids")
                table(f"trapezoid-{ranks}", mpi, own, "s", 1e9, results)
                if {rows[0].answer for name, rows in own.items()} != {own["C"][0].answer}:
                    raise Unable(f"{mpi}: Haskell and C have different answers")
                compare(f"trapezoid-{ranks}/{mpi}", own, "Heddle", "C", results)
                compare(f"trapezoid-{ranks}-point/{mpi}", own, "Heddle, point", "C", results)
            for name in ("Heddle", "C"):
                pairs = zip(samples[1, name], samples[2, name])
                values = [one.wall / (2 * two.wall) for one, two in pairs]
                print(f"  efficiency of 2 ranks, {name}: {spread(values, '.3f', 'ratio')}")
                results.ratio(f"trapezoid-efficiency-{name.lower()}/{mpi}", values)
            for ranks in (4, 8):
                crowded = " (oversubscribed: more ranks than cores)" if ranks > len(place.cores) else ""
                print(f"  {ranks} ranks{crowded}")
                own = contest(place, mpi, ranks, [who for who in contenders(mpi, n) if "point" not in who.name], options)
                table(f"trapezoid-{ranks}", mpi, own, "s", 1e9, results)
                compare(f"trapezoid-{ranks}{'-oversubscribed' if crowded else ''}/{mpi}", own, "Heddle", "C", results)

    return "trapezoid", "figure 2: the integral of the sine by ranks, gathered", run


def threads():
    def run(place, options, results):
        n = options.trapezoids
        ways = {"sequential": haskell("trapezoid", "sequential", n, 1)}
        for cores in (1, 2, 4, 8):
            ways[f"threads-{cores}"] = [*haskell("trapezoid", "threads", n, 1), "+RTS", f"-N{cores}"]
        samples = {way: [] for way in ways}
        for way in in_turn(ways, options.rounds):
            samples[way].append(place.sample("alone", 1, Contender(way, ways[way], near_zero)))
        for way, rows in samples.items():
            crowded = way.startswith("threads-") and int(way.removeprefix("threads-")) > len(place.cores)
            seconds = [row.wall / 1e9 for row in rows]
            print(f"  {way:12} {spread(seconds, '.3f'):>30} s{'  (oversubscribed)' if crowded else ''}")
            results.measured("threads", way, wall_s=seconds)
        for way in list(ways)[1:3]:
            ratios(f"trapezoid-{way}/sequential", walls(samples, way), walls(samples, "sequential"), results)

    return "threads", "figure 2: the same by one core and by threads of heddle-par", run


# ------------------------------------------------------------------------------------------ messages


def pingpong():
    def contenders(mpi):
        right = exactly(ROUNDS)
        found = [
            Contender("Heddle", haskell("pingpong", "bytes", 8, ROUNDS, TIMES), right),
            Contender("Heddle, value", haskell("pingpong", "value", ROUNDS, TIMES), right),
            Contender("Heddle, Simple", haskell("pingpong-simple", ROUNDS, TIMES), right),
            Contender("C", c(mpi, "pingpong", 8, ROUNDS, TIMES), right),
            Contender("C, SINGLE", c(mpi, "pingpong", "single", 8, ROUNDS, TIMES), right),
        ]
        if mpi == "openmpi":
            # Debian builds mpi4py for Open MPI only.
            script = os.path.join(BENCH, "mpi", "pingpong_pickle.py")
            found.append(Contender("mpi4py", [PYTHON, script, str(ROUNDS), str(TIMES)], exactly(ROUNDS)))
        return found

    pairs = [
        ("-8", "Heddle", "C"),
        ("-8-value", "Heddle, value", "C"),
        ("-8-single", "Heddle", "C, SINGLE"),
        ("-simple", "Heddle, Simple", "C"),
        ("-simple-mpi4py", "Heddle, Simple", "mpi4py"),
    ]
    return "pingpong", "8 bytes to the other rank, or back", on_both("pingpong", 2, contenders, "ns", 1, pairs)


# How often a message of so many bytes goes to and fro in one time.
SIZES = {8: 2000, 64: 2000, 512: 2000, 4096: 1000, 32768: 300, 262144: 60, 1048576: 15, 4194304: 4}
SIZE_TIMES = 20


def sizes():
    """What the article says of its simple interface: it copies, and a message of its own tells how long the next one is."""

    def run(place, options, results):
        for mpi in place.mpis:
            for size, rounds in SIZES.items():
                right = exactly(rounds)
                contenders = [
                    Contender("Heddle", haskell("pingpong", "bytes", size, rounds, SIZE_TIMES), right),
                    Contender("Heddle, Simple", haskell("pingpong-simple", "bytes", size, rounds, SIZE_TIMES), right),
                    Contender("C", c(mpi, "pingpong", size, rounds, SIZE_TIMES), right),
                ]
                samples = contest(place, mpi, 2, contenders, options)
                print(f"  {size:,} bytes")
                table(f"sizes-{size}", mpi, samples, "us", 1e3, results)
                compare(f"sizes-{size}/{mpi}", samples, "Heddle", "C", results)
                compare(f"sizes-{size}-simple/{mpi}", samples, "Heddle, Simple", "C", results)

    return "sizes", "a message to the other rank, or back, by its size: memory, a value, C", run


def bandwidth():
    def contenders(mpi):
        work = (MEGABYTE, MESSAGES, TIMES)
        right = exactly(math.ceil(MESSAGES / 16) * 16)
        return [
            Contender("Heddle", haskell("bandwidth", *work), right),
            Contender("C", c(mpi, "bandwidth", *work), right),
        ]

    pairs = [("-time", "Heddle", "C"), ("", "C", "Heddle")]
    return "bandwidth", "messages of 1 MiB; the ratio of MB/s is C's time by Heddle's", on_both("bandwidth", 2, contenders, "us", 1e3, pairs)


def allreduce():
    def contenders(mpi):
        work = (DOUBLES, ROUNDS, TIMES)
        return [
            Contender("Heddle", haskell("allreduce", *work), exactly(3)),
            Contender("C", c(mpi, "allreduce", *work), exactly(3)),
        ]

    return "allreduce", "the sum of 8 bytes on 2 ranks", on_both("allreduce-8", 2, contenders, "ns", 1, [("", "Heddle", "C")])


def reverse():
    def contenders(mpi):
        work = (OUTSTANDING, 3)
        return [
            Contender("Heddle", haskell("reverse", *work), exactly(OUTSTANDING)),
            Contender("C", c(mpi, "reverse", *work), exactly(OUTSTANDING)),
        ]

    title = f"{OUTSTANDING:,} receives outstanding, their messages in the reverse order"
    return "reverse", title, on_both("reverse", 2, contenders, "us", 1e3, [("", "Heddle", "C")])


# ------------------------------------------------------------------------------------------ waiting


def idle():
    def run(place, options, results):
        for mpi in place.mpis:
            rows = place.job(mpi, 2, haskell("idle", WAITING, options.rounds))
            values = [100 * float(row[1]) for row in rows if row[:1] == ["idle"]]
            if not values:
                raise Unable(f"nothing was measured under {mpi}")
            print(f"  {mpi:8} {WAITING:,} threads in recvValue: {spread(values, '.2f')} % of a core")
            results.figure(f"idle-percent/{mpi}", values, "% of a core", ".2f")

    return "idle", f"{WAITING:,} threads that wait for messages", run


def pause():
    def run(place, options, results):
        for mpi in place.mpis:
            # Two capabilities: so that there is another one to stop.
            rows = place.job(mpi, 2, haskell("pause", COLLECTIONS, options.rounds), "--capabilities", "2")
            found = collections.defaultdict(list)
            for row in rows:
                if row[:1] == ["pause"]:
                    found[row[1]].append([float(value) for value in row[2:]])
            if not found["none"] or len({len(rows) for rows in found.values()}) != 1:
                raise Unable(f"nothing was measured under {mpi}")
            for state in ("none", "waiting", "talking"):
                median, most_of, most = (spread(values, ".1f") for values in zip(*found[state]))
                print(f"  {mpi:8} {state:8} median {median} us, 99 of 100 below {most_of} us, most {most} us")
            for state in ("waiting", "talking"):
                for column, label in ((0, "median"), (1, "p99")):
                    more = [with_it[column] - without[column] for with_it, without in zip(found[state], found["none"])]
                    results.figure(f"pause-{state}-{label}-us/{mpi}", more, "us", ".1f")

    return "pause", "what a thread that waits in a receive adds to a small collection", run


CASES = [trapezoid(), threads(), pingpong(), sizes(), bandwidth(), allreduce(), reverse(), idle(), pause()]
