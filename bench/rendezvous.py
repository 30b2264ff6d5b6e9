"""Rendezvous against the SHIM paper's two libraries, Go's channels and C: the cases of `run.py rendezvous`.

The programs are those of bench/rendezvous. They read the clocks themselves, after some rendezvous that are
not counted. How many are counted is found by trying, so that a sample takes about SAMPLE; every Haskell
program gets the allocation area (-A) that suits it best, found in the same way.

On one core the ratios are of CPU time: that is what a rendezvous costs, and wall time would only add what
else the machine does. On two cores they are of wall time. -N1 is compared with -N1 (or GOMAXPROCS=1), -N2
with -N2. Of the two, -N1 is the faster for the paper's libraries.

`RESULT examples-<program>-<way>-speed-up` has 2 for reaching what the machine gives to two sequential
processes at the same time, one on each core.
"""
import collections
import os
import statistics
import subprocess

from harness import BENCH, BUILD, HEDDLE, Unable, Workplace, core_counts, how_to_get, in_turn, ratios, spread

AREAS = ("1m", "4m", "32m")
SAMPLE = 0.25e9
# As often as in the paper: on two cores its libraries are sometimes lucky at first, and then 100 times slower.
MOST_LUCKY = 100000
THREADS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 200, 400, 800)
STAGES = 8
# The first answer of a way is not counted.
ANSWERS = 4
EXAMPLES = os.path.join(os.path.dirname(BENCH), "bin", "heddle-rendezvous-examples")

# A program and -N1 or -N2, which for Go is GOMAXPROCS; what it is told before the number of rounds.
Contender = collections.namedtuple("Contender", "library how work")

# Nanoseconds for each round, of wall and CPU time, and what came out.
Run = collections.namedtuple("Run", "wall cpu answer")

# What was found by trying.
Setting = collections.namedtuple("Setting", "rounds area")


class RendezvousPlace(Workplace):
    """Two cores for the programs, and no other load."""

    def describe(self, options):
        return f"cores {self.cores[0]} and {self.cores[1]}; {options.rounds} rounds; estimate [95 % interval]"

    def begin(self, command, cores, environment=None):
        if not os.path.exists(command[0]):
            remedy = how_to_get(HEDDLE if command[0] == EXAMPLES else command[0])
            raise Unable(f"{os.path.basename(command[0])} is not there; {remedy}")
        variables = {**os.environ, **(environment or {})}
        pipe = subprocess.PIPE
        return self.start(command, cores, stdout=pipe, stderr=pipe, text=True, env=variables)

    def end(self, process):
        command = process.args
        try:
            output, complaint = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise Unable(f"{' '.join(command)} did not end within 120 s") from None
        finally:
            self.stop(process)
        if process.returncode != 0:
            said = complaint.strip().splitlines()[-1:] or ["nothing"]
            raise Unable(f"{' '.join(command)} ended with {process.returncode}; it said: {said[0]}")
        return output

    def output(self, command, how, environment=None):
        return self.end(self.begin(command, self.cores[: int(how[-1])], environment))

    def once(self, who, setting):
        work = [*map(str, who.work), str(setting.rounds)]
        environment = None
        if who.library == "c":
            command = [os.path.join(BUILD, "rendezvous"), *work]
        elif who.library == "go":
            command, environment = [os.path.join(BUILD, "pingpong"), *work], {"GOMAXPROCS": who.how[-1]}
        else:
            program = os.path.join(BUILD, f"bench-rendezvous-{who.library}")
            command = [program, *work, "+RTS", who.how, f"-A{setting.area}"]
        line = self.output(command, who.how, environment).split()
        if len(line) != 4 or line[0] != "timed":
            raise Unable(f"{' '.join(command)} said {' '.join(line)}, not: timed WALL CPU ANSWER")
        return Run(float(line[1]), float(line[2]), int(line[3]))

    def setting(self, who):
        """The rounds that fill a sample, and the best area."""
        rounds = 20
        while True:
            took = max(self.once(who, Setting(rounds, AREAS[0])).wall, 0.1) * rounds
            if took >= SAMPLE / 20:
                break
            rounds *= 8
        rounds = max(20, int(rounds * SAMPLE / took))
        if who.library in ("mvar", "stm") and who.how == "-N2":
            rounds = min(rounds, MOST_LUCKY)
        areas = AREAS if who.library not in ("c", "go") else AREAS[:1]
        tried = {area: self.once(who, Setting(rounds, area)).wall for area in areas}
        return Setting(rounds, min(areas, key=tried.get))


def contest(place, contenders, options):
    """Runs of each contender; those that cannot run are left out."""
    settings = {}
    for who in contenders:
        try:
            settings[who] = place.setting(who)
        except Unable as reason:
            print(f"  without {reason}")
    samples = {who: [] for who in settings}
    for who in in_turn(settings, options.rounds) if settings else ():
        if who in samples:
            try:
                samples[who].append(place.once(who, settings[who]))
            except Unable as reason:
                print(f"  without {reason}")
                del samples[who]
    return samples, settings


def column(samples, who, name):
    return [getattr(row, name) for row in samples.get(who, [])]


def table(case, samples, settings, shares, results):
    """A line for each contender; `shares` is what to divide by, such as its members."""
    print(f"  {'':22}  {'wall ns':>32}  {'CPU ns':>32}  {'CPU ns each':>11}  -A")
    for who in samples:
        wall, cpu = (column(samples, who, name) for name in ("wall", "cpu"))
        area = settings[who].area if who.library not in ("c", "go") else "-"
        print(
            f"  {title(who):22}  {spread(wall, '.1f'):>32}  {spread(cpu, '.1f'):>32}"
            f"  {statistics.median(cpu) / shares(who):>11.1f}  {area}"
        )
        results.measured(case, title(who), wall_ns=wall, cpu_ns=cpu)


def title(who):
    how = who.how.replace("-N", "GOMAXPROCS=") if who.library == "go" else "" if who.library == "c" else who.how
    return " ".join(filter(None, [who.library, how, *map(str, who.work)]))


def compare(case, samples, mine, theirs, clock, results):
    """The ratio, and the same as the paper would say it."""
    if mine not in samples or theirs not in samples:
        return
    ours, others = column(samples, mine, clock), column(samples, theirs, clock)
    ratios(case, ours, others, results)
    factor = statistics.median(other / our for our, other in zip(ours, others))
    clock = "CPU" if clock == "cpu" else clock
    print(f"        {title(theirs)} takes {factor:.2f} times the {clock} time of {title(mine)}")


def members(who):
    return who.work[0]


def table_1(n):
    def run(place, options, results):
        def contender(library, how):
            return Contender(library, how, (n,))

        hows = ("-N1", "-N2")
        contenders = [contender(library, how) for library in ("heddle", "mvar", "stm", "go") for how in hows]
        samples, settings = contest(place, [*contenders, contender("c", "-N1")], options)
        table(f"table1-{n}", samples, settings, members, results)
        for how, clock in zip(hows, ("cpu", "wall")):
            for other in ("mvar", "stm"):
                mine, theirs = contender("heddle", how), contender(other, how)
                compare(f"table1-{n}{how}/{other}", samples, mine, theirs, clock, results)
        one = contender("heddle", "-N1")
        compare(f"table1-{n}-N1/c", samples, one, contender("c", "-N1"), "cpu", results)
        # As the paper compares them.
        for how, clock in zip(hows, ("cpu", "wall")):
            compare(f"table1-{n}{how}-mvar/stm", samples, contender("mvar", how), contender("stm", how), clock, results)
        require(samples, one)

    return f"table1-{n}", f"Table 1: one writer and {n - 1} reader{'s' * (n > 2)} on one channel", run


def require(samples, who):
    if who not in samples:
        raise Unable(f"{title(who)} did not run")


def two_party():
    def run(place, options, results):
        heddle, go = ([Contender(library, how, (2,)) for how in ("-N1", "-N2")] for library in ("heddle", "go"))
        c = Contender("c", "-N1", (2,))
        samples, settings = contest(place, [*heddle, *go, c], options)
        table("two-party", samples, settings, members, results)
        compare("two-party-N1/go", samples, heddle[0], go[0], "cpu", results)
        compare("two-party-N2/go", samples, heddle[1], go[1], "wall", results)
        compare("two-party-N2-CPU/go", samples, heddle[1], go[1], "cpu", results)
        compare("two-party-N1/c", samples, heddle[0], c, "cpu", results)
        require(samples, heddle[0])

    return "two-party", "one writer, one reader; Go: an unbuffered channel", run


def flat():
    sizes = (2, 10, 100, 800)

    def run(place, options, results):
        contenders = [Contender("heddle", how, (n,)) for how in ("-N1", "-N2") for n in sizes]
        samples, settings = contest(place, contenders, options)
        table("flat", samples, settings, members, results)
        for how, clock in (("-N1", "cpu"), ("-N2", "wall")):
            few, many = (Contender("heddle", how, (n,)) for n in (sizes[0], sizes[-1]))
            if few in samples and many in samples:
                each = [[time / members(who) for time in column(samples, who, clock)] for who in (many, few)]
                ratios(f"flat{how}/{sizes[-1]}-to-{sizes[0]}", *each, results)
        require(samples, contenders[0])

    return "flat", f"what a participant costs among {sizes[-1]} and among {sizes[0]}", run


def two_cores():
    def run(place, options, results):
        step = place.once(Contender("heddle", "-N1", ("alone", 1, 10000)), Setting(2000, AREAS[0])).cpu / 10000
        print(f"  a step of work takes {step:.2f} ns")
        rounds = {f"rendezvous-{n}": (n,) for n in (2, 10, 100, 800)}
        pipes = {f"pipeline-{us}us": ("pipeline", STAGES, round(1000 * us / step)) for us in (0, 1, 10)}
        for case, work in {**rounds, **pipes}.items():
            one, two = (Contender("heddle", how, work) for how in ("-N1", "-N2"))
            alone = Contender("heddle", "-N1", ("alone", *work[1:]))
            contenders = [one, two] + [alone] * (case in pipes)
            samples, settings = contest(place, contenders, options)
            shares = lambda who: who.work[1] if who.work[0] in ("pipeline", "alone") else members(who)
            table(case, samples, settings, shares, results)
            compare(f"{case}-N2/N1", samples, two, one, "wall", results)
            if case != "pipeline-0us":
                compare(f"{case}-N1/alone", samples, one, alone, "cpu", results)
                compare(f"{case}-N2/alone", samples, two, alone, "wall", results)

    return "n2-over-n1", f"two cores against one: rendezvous, and {STAGES} stages with 0, 1 and 10 µs of work", run


def memory():
    few, many = 1000, 100000

    def run(place, options, results):
        program = os.path.join(BUILD, "bench-rendezvous-heddle")


        def each(what):
            found = {}
            for n in (few, many):
                said = place.output([program, what, str(n), "+RTS", "-N1", "-T"], "-N1").split()
                if len(said) != 2 or said[0] != "bytes":
                    raise Unable(f"{program} {what} {n} said {' '.join(said)}, not: bytes LIVE")
                found[n] = int(said[1])
                print(f"  {what} {n:>7}: {found[n]:>11} bytes are alive")
            return (found[many] - found[few]) / (many - few)

        waiting, own = each("memory"), each("own")
        print(f"  {waiting:.1f} bytes for each branch more, {own:.1f} of which are its own data")
        results.figure("memory/bytes-per-branch", waiting, "bytes", ".1f")
        results.figure("memory/bytes-beyond-own", waiting - own, "bytes", ".1f")

    return "memory", "what a branch that waits in a rendezvous takes", run


def grants():
    numbers = (1000, 8000, 64000)

    def run(place, options, results):
        program = os.path.join(BUILD, "bench-rendezvous-heddle")
        alive = {}
        for n in (numbers[0], numbers[-1]):
            said = place.output([program, "channels", str(n), "+RTS", "-N1", "-T"], "-N1").split()
            if len(said) != 2 or said[0] != "bytes":
                raise Unable(f"{program} channels {n} said {' '.join(said)}, not: bytes LIVE")
            alive[n] = int(said[1])
        each = (alive[numbers[-1]] - alive[numbers[0]]) / (numbers[-1] - numbers[0])
        print(f"  {each:.0f} bytes for each channel more")
        results.figure("grants/bytes-per-channel", each, "bytes", ".0f")
        # As many grants of each number.
        contenders = {n: Contender("heddle", "-N1", ("grants", n)) for n in numbers}
        samples = {n: [] for n in numbers}
        for n in in_turn(contenders, options.rounds):
            samples[n].append(place.once(contenders[n], Setting(128000 // n, AREAS[0])).cpu)
        for n in numbers:
            print(f"  {n:>7} channels: {spread(samples[n], '.0f')} ns of CPU for a grant to a writer and a reader, and a value")
            results.measured("grants", f"{n}-channels", cpu_ns=samples[n])
        ratios(f"grants/{numbers[-1]}-to-{numbers[0]}", samples[numbers[-1]], samples[numbers[0]], results)

    return "grants", "what a channel takes, and a grant, with 1,000 channels and with 64,000", run


def answers(text):
    """Nanoseconds for each way of an example, from lines of a way and its time."""
    times = collections.defaultdict(list)
    for line in text.splitlines():
        way, _, time = line.rpartition(" ")
        times[way].append(int(time))
    return {way: statistics.median(list_[1:]) for way, list_ in times.items()}


def example(program, what, case=None, more=()):
    case = case or program

    def run(place, options, results):
        command = [EXAMPLES, program, "--times", "--rounds", str(ANSWERS), *more]
        alone = [*command, "--only", "sequential", "--cores", "1"]
        samples, twice = collections.defaultdict(list), []
        for _ in range(options.rounds):
            for way, time in answers(place.output([*command, "--cores", "2"], "-N2")).items():
                samples[way].append(time)
            both = [place.begin(alone, {core}) for core in place.cores[:2]]
            twice.append(statistics.mean(answers(place.end(process))["sequential"] for process in both))
        base = samples["sequential"]
        print(f"  {'':16}  {'wall ms':>28}  {'times faster':>22}")
        for way, times in [*samples.items(), ("twice", twice)]:
            units = 2 if way == "twice" else 1
            gain = [units * one / time for one, time in zip(base, times)]
            milliseconds = [time / 1e6 for time in times]
            print(f"  {way:16}  {spread(milliseconds, '.3f'):>28}  {spread(gain, '.2f', 'ratio'):>22}")
            results.measured(f"examples-{case}", way, wall_ms=milliseconds)
        for way in samples:
            if way not in ("sequential", "par/pseq"):
                ratios(f"examples-{case}-{way}/sequential", samples[way], base, results)
                if "par/pseq" in samples:
                    ratios(f"examples-{case}-{way}/par-pseq", samples[way], samples["par/pseq"], results)
                reached = [most / time for most, time in zip(twice, samples[way])]
                print(f"  speed-up of {way}, where the ceiling is 2: {spread(reached, '.2f', 'ratio')}")
                results.ratio(f"examples-{case}-{way}-speed-up", reached)

    return f"examples-{case}", what, run


def by_cores(program, what, case=None, more=(), count_answers=ANSWERS):
    """A figure's curve: each way by cores. The first answer of a way is not counted, as above."""
    case = f"cores-{case or program}"

    def run(place, options, results):
        counts = core_counts(place)
        times = collections.defaultdict(list)
        for name in in_turn(map(str, counts), options.rounds):
            command = [EXAMPLES, program, "--times", "--rounds", str(count_answers), *more, "--cores", name]
            for way, time in answers(place.output(command, f"-N{name}")).items():
                times[way, name].append(time / 1e6)
        print(f"  {'way on cores':>20}  {'wall ms':>28}")
        for (way, count), values in sorted(times.items()):
            print(f"  {way + ' on ' + count:>20}  {spread(values, '.2f'):>28}")
            results.measured(case, f"{way} on {count}", wall_ms=values)
        for count in map(str, counts):
            for way, number in times:
                if number == count and way not in ("sequential", "par/pseq"):
                    ratios(f"{case}-{count}-{way}/sequential", times[way, count], times["sequential", count], results)

    return case, f"{what}, by cores", run


def by_jobs(program, jobs, what):
    """The server of Figure 27, by the size of the jobs that it gives out."""
    case = f"jobs-{program}"

    def run(place, options, results):
        counts = core_counts(place)
        times = collections.defaultdict(list)
        for name in in_turn([f"{job} on {count}" for job in jobs for count in counts], options.rounds):
            job, _, count = name.partition(" on ")
            command = [EXAMPLES, program, "--times", "--rounds", str(ANSWERS), "--job", job, "--cores", count, "--only", "det"]
            times[name].append(answers(place.output(command, f"-N{count}"))["det"] / 1e6)
        print(f"  {'job on cores':>20}  {'wall ms':>28}")
        for name, values in times.items():
            print(f"  {name:>20}  {spread(values, '.2f'):>28}")
            results.measured(case, name, wall_ms=values)

    return case, f"{what}, by the size of a job", run


def intervals():
    """The trade-off that section 6.3.1 names and leaves open: how often the searching threads meet."""
    tried = (10, 100, 1000, 10000, 100000)

    def run(place, options, results):
        times = collections.defaultdict(list)
        for name in in_turn([f"{interval} on {count}" for interval in tried for count in core_counts(place)], options.rounds):
            interval, _, count = name.partition(" on ")
            command = [EXAMPLES, "search", "--times", "--rounds", str(ANSWERS), "--interval", interval, "--cores", count, "--only", "rendezvous"]
            times[name].append(answers(place.output(command, f"-N{count}"))["rendezvous"] / 1e6)
        print(f"  {'interval on cores':>20}  {'wall ms':>28}")
        for name, values in times.items():
            print(f"  {name:>20}  {spread(values, '.1f'):>28}")
            interval, _, count = name.partition(" on ")
            results.measured("search-interval", f"{interval}-on-{count}", wall_ms=values)

    return "search-interval", "Figures 23 and 24: the same search, by how many numbers each thread looks at between two meetings", run


CASES = [
    *(table_1(n) for n in THREADS),
    two_party(),
    flat(),
    two_cores(),
    memory(),
    grants(),
    example("maximum", "Figures 19 and 20: the greatest of 400,000 numbers"),
    example("maximum", "the same of 40,000,000", "maximum-long", ["--size", "40000000", "--repeat", "1"]),
    example("sat", "Figures 21 and 22: 600 variables, 2,500 clauses, no model"),
    example("search", "Figures 23 and 24: a key in a list of 420,000 numbers"),
    intervals(),
    by_cores("maximum", "Figure 19: the greatest of 400,000 numbers"),
    by_cores("maximum", "Figure 19: the greatest of 40,000,000 numbers", "maximum-long", ["--size", "40000000", "--repeat", "1"]),
    by_cores("sat", "Figure 21: 600 variables, 2,500 clauses, no model", count_answers=2),
    by_cores("search", "Figure 23: a key in a list of 420,000 numbers"),
    by_cores("filter", "Figure 25: a filter over 50,000 samples"),
    by_cores("histogram", "Figure 26: the shades of a picture of 565 KB"),
    by_jobs("filter", (10, 50, 250, 1000, 5000, 25000), "Figure 25: a filter over 50,000 samples"),
    by_jobs("histogram", (250, 1000, 5000, 25000, 100000), "Figure 26: the shades of a picture of 565 KB"),
    example("filter", "Figures 25 and 27: a filter over 50,000 samples"),
    example("histogram", "Figures 26 and 27: the shades of a picture of 565 KB"),
    example("histogram", "the same 100 times over, in jobs of 100,000 pixels", "histogram-long", ["--size", "100", "--job", "100000", "--repeat", "1"]),
]
