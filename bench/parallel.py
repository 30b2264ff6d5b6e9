"""Par monads and sparks on one core, two, and all there are: the cases of `run.py par`.

The programs are those of bench/par, one for each library. They read the clocks themselves, around the
work, so starting and ending are not in it; a process does the work once unmeasured and then several times, and the median
of these counts. Every program gets the allocation area (-A) that suits it best,
found by trying.

A speed-up is over the sequential program, and its ceiling is what the machine gives to two sequential
processes at the same time, one on each core. `RESULT <case>-speed-up` has 2 for reaching that ceiling.
"""
import collections
import os
import statistics
import subprocess

from harness import BUILD, Unable, Workplace, core_counts, how_to_get, in_turn, ratios, spread

AREAS = ("1m", "4m", "32m", "128m")
TIMES = 3
LIBRARIES = ("heddle", "sparks", "monad-par")

# Milliseconds of wall and CPU time, and what came out.
Run = collections.namedtuple("Run", "wall_ms cpu_ms answer")

# A library, and -N1, -N2 or twice: two processes at the same time.
Contender = collections.namedtuple("Contender", "library how")

# For each workload its size and the grain of its tasks.
COARSE = {
    "fib": (39, 24, "Fibonacci numbers, a task for each call down to fib 24"),
    "queens": (14, 3, "queens on 14 x 14, a task for each move in 3 rows"),
    "matrix": (800, 8, "matrix product of 800 x 800, a task for 8 rows"),
    "map": (60000000, 50000, "parMap over trapezoids, 50,000 in a piece"),
}
FINE = {
    "fib": (30, 1, "Fibonacci numbers, a task for every call"),
    "queens": (11, 11, "queens on 11 x 11, a task for every move"),
    "map": (4000000, 40, "parMap over trapezoids, 40 in a piece"),
}


class ParallelPlace(Workplace):
    """Cores for the programs, and no other load."""

    def describe(self, options):
        return f"cores {self.cores[0]} and {self.cores[1]}, more where a case says so; {options.rounds} rounds; estimate [95 % interval]"

    def begin(self, library, work, cores, area):
        program = os.path.join(BUILD, f"bench-par-{library}")
        if not os.path.exists(program):
            raise Unable(f"bench-par-{library} is not there; {how_to_get(program)}")
        command = [program, "-n", str(TIMES), *map(str, work), "+RTS", f"-N{len(cores)}", f"-A{area}"]
        return self.start(command, cores, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process, library):
        try:
            output, complaint = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise Unable(f"{library}: {' '.join(process.args)} did not end within 120 s") from None
        finally:
            self.stop(process)
        lines = [line.split() for line in output.splitlines()]
        if process.returncode != 0 or len(lines) != TIMES:
            said = complaint.strip().splitlines()[-1:] or ["nothing"]
            raise Unable(f"{library}: {' '.join(process.args)} ended with {process.returncode}; it said: {said[0]}")
        rows = [(int(wall) / 1e6, int(cpu) / 1e6, int(answer)) for _, wall, cpu, _bytes, answer in lines]
        return Run(*(statistics.median(column) for column in zip(*rows)))

    def once(self, who, work, area):
        """One process; or two at the same time, a core for each, and their mean."""
        alone = who.how == "twice"
        kinds = [{core} for core in self.cores[:2]] if alone else [set(self.cores[: int(who.how[2:])])]
        processes = [self.begin(who.library, work, cores, area) for cores in kinds]
        runs = [self.end(process, who.library) for process in processes]
        return Run(*(statistics.mean(column) for column in zip(*runs)))


def best_areas(place, work, contenders):
    """The allocation area that suits each contender best; those that cannot run are left out."""
    areas, answers = {}, {}
    for who in contenders:
        try:
            tried = {area: place.once(who, work, area) for area in AREAS}
        except Unable as reason:
            print(f"  without {reason}")
            continue
        areas[who] = min(AREAS, key=lambda area: tried[area].wall_ms)
        answers[who] = tried[areas[who]].answer
    if len(set(answers.values())) > 1:
        raise Unable(f"they do not agree: {answers}")
    return areas


def contest(place, work, contenders, options):
    """Runs of each contender, and its allocation area."""
    areas = best_areas(place, work, contenders)
    samples = {who: [] for who in areas}
    for who in in_turn(areas, options.rounds):
        samples[who].append(place.once(who, work, areas[who]))
    return samples, areas


def walls(samples, who):
    return [row.wall_ms for row in samples.get(who, [])]


def record(case, who, rows, results, **more):
    columns = {field: [getattr(row, field) for row in rows] for field in ("wall_ms", "cpu_ms")}
    results.measured(case, " ".join(who), **columns, **more)


def print_gains(samples, base, areas, units=lambda who: 1):
    """A line for each contender, and how many times as fast as the sequential program it is."""
    gains = {}
    print(f"  {'':16}  {'wall ms':>26}  {'CPU ms':>8}  {'speed-up':>18}  -A")
    for who, rows in samples.items():
        cpu = statistics.median(row.cpu_ms for row in rows)
        gains[who] = [units(who) * theirs / wall for theirs, wall in zip(base, walls(samples, who))]
        print(
            f"  {' '.join(who):16}  {spread(walls(samples, who), '.1f'):>26}  {cpu:>8.1f}"
            f"  {spread(gains[who], '.2f', 'ratio'):>18}  {areas[who]}"
        )
    return gains


def scaling(workload):
    size, grain, title = COARSE[workload]
    work = (workload, size, grain)

    def run(place, options, results):
        alone, twice = Contender("seq", "-N1"), Contender("seq", "twice")
        ones, twos = ([Contender(library, how) for library in LIBRARIES] for how in ("-N1", "-N2"))
        samples, areas = contest(place, work, [alone, twice, *ones, *twos], options)
        if alone not in samples or twice not in samples:
            raise Unable("nothing to compare with")
        base, both = walls(samples, alone), walls(samples, twice)
        print_gains(samples, base, areas, lambda who: 2 if who is twice else 1)
        for who, rows in samples.items():
            record(workload, who, rows, results)
        for mine, theirs in zip((ones[0], twos[0]), (ones[1:], twos[1:])):
            if mine not in samples:
                print(f"  no ratios: heddle {mine.how} did not run")
                continue
            for other in theirs:
                if other in samples:
                    case = f"{workload}{mine.how}/{other.library}"
                    ratios(case, walls(samples, mine), walls(samples, other), results)
        if ones[0] in samples:
            ratios(f"{workload}-N1/seq", walls(samples, ones[0]), base, results)
        if twos[0] in samples:
            reached = [most / wall for most, wall in zip(both, walls(samples, twos[0]))]
            print(f"  speed-up of heddle -N2, where the ceiling is 2: {spread(reached, '.2f', 'ratio')}")
            results.ratio(f"{workload}-speed-up", reached)

    return workload, title, run


def over_cores(workload):
    """What `scaling` measures, on as many cores as there are, without the ceiling."""
    size, grain, title = COARSE[workload]
    work = (workload, size, grain)

    def run(place, options, results):
        counts = core_counts(place)
        alone = Contender("seq", "-N1")
        # The area that suits a library best on all cores is used on fewer, too.
        found = best_areas(place, work, [alone, *(Contender(library, f"-N{counts[-1]}") for library in LIBRARIES)])
        if alone not in found:
            raise Unable("nothing to compare with")
        areas = {alone: found.pop(alone)}
        areas |= {Contender(who.library, f"-N{count}"): area for count in counts for who, area in found.items()}
        samples = {who: [] for who in areas}
        for who in in_turn(areas, options.rounds):
            samples[who].append(place.once(who, work, areas[who]))
        gains = print_gains(samples, walls(samples, alone), areas)
        for who, rows in samples.items():
            record(f"{workload}-cores", who, rows, results, times_faster=gains[who])
        for count in counts:
            for library in LIBRARIES[1:]:
                mine, theirs = (walls(samples, Contender(one, f"-N{count}")) for one in ("heddle", library))
                if mine and theirs:
                    ratios(f"{workload}-cores-{count}/{library}", mine, theirs, results)

    return f"{workload}-cores", f"{title}, by cores", run


def fine(workload):
    size, grain, title = FINE[workload]

    def run(place, options, results):
        cost(place, f"{workload}-fine", (workload, size, grain), tasks_of(workload, size, grain), options, results)

    return f"{workload}-fine", title, run


def tasks_of(workload, size, grain):
    """How many tasks there are, where it is easy to say."""
    if workload == "fib":
        before, now = 1, 1
        for _ in range(size - 1):
            before, now = now, before + now
        return now - 1
    if workload == "map":
        return -(-size // grain)
    return None


def fork_and_get():
    size = 1000000

    def run(place, options, results):
        cost(place, "fork", ("fork", size, 1), size, options, results)

    return "fork", "fork a task and get its answer at once", run


def cost(place, case, work, tasks, options, results):
    """What a task costs in CPU time, on one core and on two."""
    print(f"  {'':20}  {'CPU ' + ('ns/task' if tasks else 'ms'):>26}  {'wall ms':>26}  -A")
    for how in ("-N1", "-N2"):
        contenders = [Contender(library, how) for library in LIBRARIES]
        contenders.append(Contender("drop-in", how))
        if how == "-N1":
            # It does not survive a second run on two cores.
            contenders.append(Contender("monad-par-direct", how))
        samples, areas = contest(place, work, contenders, options)
        for who, rows in samples.items():
            each = [row.cpu_ms * (1e6 / tasks if tasks else 1) for row in rows]
            print(f"  {' '.join(who):20}  {spread(each, '.1f'):>26}  {spread(walls(samples, who), '.1f'):>26}  {areas[who]}")
            record(case, who, rows, results, **({"task_ns": each} if tasks else {}))
        mine = contenders[0]
        if mine not in samples:
            print(f"  no ratios: heddle {how} did not run")
            continue
        for who, rows in samples.items():
            if who is not mine:
                ours, theirs = ([row.cpu_ms for row in samples[one]] for one in (mine, who))
                ratios(f"{case}{how}/{who.library}", ours, theirs, results)


def semaphores():
    # Two cores hand an MVar to and fro, and each time one of them sleeps.
    def size_of(kind, how):
        return 100000 if (kind, how) == ("mvar", "-N2") else 1000000

    def run(place, options, results):
        kinds = ("fetch-add", "atomic", "mvar")
        print(f"  {'':14}  {'wall ns/unit':>26}  {'CPU ns/unit':>26}")
        for how, threads in (("-N1", 1), ("-N2", 2)):
            who = Contender("semaphores", how)
            samples = {kind: [] for kind in kinds}
            for kind in in_turn(kinds, options.rounds):
                size = size_of(kind, how)
                once = place.once(who, (kind, size, 1), "4m")
                samples[kind].append([1e6 * time / size / threads for time in (once.wall_ms, once.cpu_ms)])
            wall, cpu = ({kind: [row[i] for row in rows] for kind, rows in samples.items()} for i in (0, 1))
            for kind in kinds:
                print(f"  {kind + ' ' + how:14}  {spread(wall[kind], '.1f'):>26}  {spread(cpu[kind], '.1f'):>26}")
                results.measured("semaphore", f"{kind} {how}", wall_ns=wall[kind], cpu_ns=cpu[kind])
            for other in kinds[1:]:
                ratios(f"semaphore{how}/{other}", wall[kinds[0]], wall[other], results)

    return "semaphore", "a unit taken and given back, a thread on each core", run


# Calls of fib below which there are no tasks: a task is from some tenths of a microsecond to some milliseconds long.
GRAINS = (8, 12, 16, 20, 24, 28)
GRAIN_SIZE = 36


def grains():
    """The granularity of the chapter and of the paper: what a program gains from cores, by the work of a task."""

    def run(place, options, results):
        counts = core_counts(place)
        alone = Contender("seq", "-N1")
        every = [(Contender(library, f"-N{count}"), grain) for library in LIBRARIES for count in counts for grain in GRAINS]
        samples = {}
        for who, grain in [(alone, GRAINS[-1]), *every]:
            try:
                place.once(who, ("fib", GRAIN_SIZE, grain), "4m")
                samples[who, grain] = []
            except Unable as reason:
                print(f"  without {reason}")
        for who, grain in in_turn(samples, options.rounds):
            samples[who, grain].append(place.once(who, ("fib", GRAIN_SIZE, grain), "4m"))
        base = [row.wall_ms for row in samples.get((alone, GRAINS[-1]), [])]
        if not base:
            raise Unable("the sequential program did not run")
        print(f"  {'':24} {'wall ms':>28}  {'times faster':>20}")
        for (who, grain), rows in samples.items():
            wall = [row.wall_ms for row in rows]
            gain = [one / time for one, time in zip(base, wall)]
            print(f"  {' '.join(who) + ' ' + str(grain):24} {spread(wall, '.1f'):>28}  {spread(gain, '.2f'):>20}")
            name = " ".join(who) if who is alone else f"{' '.join(who)} {grain}"
            results.measured("grains", name, wall_ms=wall, times_faster=gain)
        for count in counts:
            for grain in GRAINS:
                mine = samples.get((Contender("heddle", f"-N{count}"), grain))
                for library in LIBRARIES[1:]:
                    theirs = samples.get((Contender(library, f"-N{count}"), grain))
                    if mine and theirs:
                        ratios(f"grains-{grain}-N{count}/{library}", *([row.wall_ms for row in rows] for rows in (mine, theirs)), results)

    return "grains", f"Fibonacci number {GRAIN_SIZE} by the size of a task and by cores", run


CASES = [
    fork_and_get(),
    semaphores(),
    *(fine(workload) for workload in FINE),
    *(scaling(workload) for workload in COARSE),
    *(over_cores(workload) for workload in COARSE),
    grains(),
]
