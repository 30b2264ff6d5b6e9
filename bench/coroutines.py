"""Coroutine pipelines against conduit, pipes, the article's listings, loops, grep and ripgrep: the cases of
`run.py coroutine`.

The programs are those of bench/coroutine, one for each job, in which each library does the same. They read
the clocks themselves, after some work that is not counted. Every Haskell program gets the allocation area
(-A) that suits it best, found by trying; it has one core, and the ratios are of CPU time.

`heddle pipe`, grep and ripgrep start from bench/build/timed, search the same text in the kernel's caches,
and write to a pipe that is read here. Their output has to be the same, byte for byte.
"""
import collections
import os
import re
import shutil
import statistics
import subprocess

from harness import BUILD, HEDDLE, Unable, Workplace, found, how_to_get, in_turn, ratios, spread

AREAS = ("1m", "4m", "32m", "128m")
# Areas with which no collection interrupts the measured work, and with which many do.
ROOM, TIGHT = "512m", "4m"
SAMPLE = 0.25e9
# A sample is the median of as many runs in a row.
TIMES = 3

# A hop is the difference between this many stages, divided by their difference.
FEW, MANY = 2, 12
PRIMES = 10000
# The 10,000th prime.
MORE_PRIMES = 104729

MEGABYTES = 512
# One line in this many matches.
EVERY = 100000
WANTED = "FIND ME"
STREAM_MEGABYTES = 10000

# A program of bench/coroutine, the way in it, and for some how many stages.
Contender = collections.namedtuple("Contender", "job way stages", defaults=[None])

# Nanoseconds of wall and CPU time, bytes that were allocated, and what came out.
Run = collections.namedtuple("Run", "wall cpu bytes answer")

# What `timed` says of a command, and what the command wrote.
Timed = collections.namedtuple("Timed", "wall_ms cpu_ms kb output")


class CoroutinePlace(Workplace):
    """One core for a program; the text to search."""

    def __init__(self):
        super().__init__()
        self.log = None

    def describe(self, options):
        cores = f"cores {self.cores[0]} and {self.cores[1]}"
        return f"{cores}; {options.rounds} rounds of {TIMES} runs; estimate [95 % interval]"

    def end(self, process):
        """What it wrote, as bytes and as text."""
        command = " ".join(process.args)
        try:
            output, complaint = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            raise Unable(f"{command} did not end within 300 s") from None
        finally:
            self.stop(process)
        complaint = complaint.decode(errors="replace")
        if process.returncode != 0:
            said = complaint.strip().splitlines()[-1:] or ["nothing"]
            raise Unable(f"{command} ended with {process.returncode}; it said: {said[0]}")
        return output, complaint

    def once(self, who, n, area):
        program = os.path.join(BUILD, "fused" if who.way == "c" else f"bench-coroutine-{who.job}")
        if not os.path.exists(program):
            raise Unable(f"{os.path.basename(program)} is not there; {how_to_get(program)}")
        work = [str(n)] if who.way == "c" else [who.way, str(n), *([str(who.stages)] if who.stages else [])]
        command = [program, *work, *([] if who.way == "c" else ["+RTS", f"-A{area}"])]
        process = self.start(command, {self.cores[0]}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        words = self.end(process)[0].decode(errors="replace").split()
        if len(words) != 5 or words[0] != "timed":
            raise Unable(f"{' '.join(command)} said {' '.join(words)}, not: timed WALL CPU BYTES ANSWER")
        return Run(*map(int, words[1:]))

    def sample(self, who, n, area):
        runs = [self.once(who, n, area) for _ in range(TIMES)]
        wall, cpu, allocated = (statistics.median(column) for column in list(zip(*runs))[:3])
        answers = {run.answer for run in runs}
        if len(answers) != 1:
            raise Unable(f"{title(who)} has several answers: {answers}")
        return Run(wall, cpu, allocated, *answers)

    def size(self, who):
        """A size that fills a sample."""
        n = 1000
        while True:
            took = max(self.once(who, n, AREAS[0]).wall, 1)
            if took >= SAMPLE / 20:
                return max(1000, int(n * SAMPLE / took))
            n *= 8

    def area(self, who, n):
        if who.way == "c":
            return "-"
        return min(AREAS, key=lambda area: self.once(who, n, area).cpu)

    # --------------------------------------------------------------------------- commands on a text

    def text(self):
        """The path of the text to search."""
        if self.log is None:
            if shutil.disk_usage(self.folder).free < 2 * MEGABYTES * 1000000:
                raise Unable(f"{self.folder} has no room for {MEGABYTES} MB; set TMPDIR to a folder that has")
            log = self.path("log.txt")
            with open(log, "wb") as file:
                self.end(self.start(log_text(MEGABYTES, EVERY), set(self.cores), stdout=file, stderr=subprocess.PIPE))
                os.fsync(file.fileno())
            self.log = log
        return self.log

    def begin(self, command, cores, times, source=None):
        command = [found(os.path.join(BUILD, "timed")), "-n", str(times), found(command[0]), *command[1:]]
        pipe = subprocess.PIPE
        # The plain locale: GNU grep then has no characters to decode.
        environment = {**os.environ, "LC_ALL": "C"}
        source = source or subprocess.DEVNULL
        return self.start(command, cores, stdin=source, stdout=pipe, stderr=pipe, env=environment)

    def timed(self, command, cores, times=TIMES, source=None):
        return self.time_of(self.begin(command, cores, times, source), times)

    def time_of(self, process, times=TIMES):
        command = " ".join(process.args[3:])
        output, complaint = self.end(process)
        lines = complaint.splitlines()
        rows = [line.split()[1:] for line in lines if line.startswith("timed ")]
        states = {int(row[4]) for row in rows}
        if len(rows) != times or states != {0}:
            said = next((line for line in lines if not line.startswith("timed ")), "nothing")
            raise Unable(f"{command} ended with the wait status {max(states, default=0)}; it said: {said}")
        values = [(float(wall) / 1e3, (int(user) + int(system)) / 1e3, int(kb)) for wall, user, system, kb, _ in rows]
        wall, cpu, kb = (statistics.median(column) for column in zip(*values))
        if output != output[: len(output) // times] * times:
            raise Unable(f"{command} did not write the same each time")
        return Timed(wall, cpu, kb, output[: len(output) // times])


def log_text(megabytes, every, times=1):
    command = [os.path.join(BUILD, "logtext"), "megabytes", str(megabytes), "every", str(every), "times", str(times)]
    return [found(command[0]), *command[1:]]


def title(who):
    return who.way + (f" {who.stages:,}" if who.stages else "")


# ------------------------------------------------------------------------------------------ contests


def contest(place, sizes, right, options):
    """Samples of each contender, given the size for each; those that cannot run are left out."""
    areas, samples = {}, {}
    for who, n in sizes.items():
        try:
            areas[who] = place.area(who, n)
            samples[who] = []
        except Unable as reason:
            print(f"  without {reason}")
    for who in in_turn(samples, options.rounds) if samples else ():
        run = place.sample(who, sizes[who], areas[who])
        if run.answer != right(sizes[who]):
            raise Unable(f"{title(who)} says {run.answer}, not {right(sizes[who])}")
        samples[who].append(run)
    return samples, areas


def column(samples, who, name):
    return [getattr(row, name) for row in samples[who]]


def compare(case, values, mine, theirs, results):
    """The ratio of a round, where both are there."""
    if mine in values and theirs in values:
        ratios(case, values[mine], values[theirs], results)


def table(case, rows, results, heading="ns", bytes_heading="bytes"):
    """Lines of a name, wall and CPU times, bytes, and the allocation area."""
    print(f"  {'':18}  {'wall ' + heading:>30}  {'CPU ' + heading:>30}  {bytes_heading:>10}  -A")
    for name, wall, cpu, allocated, area in rows:
        allocated = f"{statistics.median(allocated):.2f}" if allocated else "-"
        print(f"  {name:18}  {spread(wall, '.2f'):>30}  {spread(cpu, '.2f'):>30}  {allocated:>10}  {area}")
        results.measured(case, name, **{f"wall_{heading}": wall, f"cpu_{heading}": cpu})


def per_item(samples, areas, sizes):
    """Rows for the table: what one item costs."""
    rows = []
    for who in samples:
        each = ([value / sizes[who] for value in column(samples, who, name)] for name in ("wall", "cpu", "bytes"))
        rows.append((title(who), *each, areas[who]))
    return rows


def total(n):
    return n * (n + 1) // 2


def require(values, *keys):
    for key in keys:
        if key not in values:
            raise Unable(f"{title(key) if isinstance(key, Contender) else key} did not run")


def hop():
    ways = ("pipe", "coroutine", "article", "conduit", "conduit-left", "pipes")

    def run(place, options, results):
        sizes, samples, areas = {}, {}, {}
        for way in ways:
            try:
                many = Contender("hop", way, MANY)
                sizes[way] = place.size(many)
                areas[way] = place.area(many, sizes[way])
                samples[way] = []
            except Unable as reason:
                print(f"  without {reason}")
        for way in in_turn(samples, options.rounds) if samples else ():
            few, many = (place.sample(Contender("hop", way, stages), sizes[way], areas[way]) for stages in (FEW, MANY))
            if {few.answer, many.answer} != {total(sizes[way])}:
                raise Unable(f"{way} says {few.answer} and {many.answer}, not {total(sizes[way])}")
            hops = (MANY - FEW) * sizes[way]
            samples[way].append([(more - less) / hops for more, less in zip(many[:3], few[:3])])
        columns = {way: list(zip(*rows)) for way, rows in samples.items()}
        table("hop", [(way, *columns[way], areas[way]) for way in columns], results)
        require(columns, "pipe")
        cpu = {way: columns[way][1] for way in columns}
        for theirs in ways[3:] + ways[2:3]:
            compare(f"hop/{theirs}", cpu, "pipe", theirs, results)
        compare("hop-coroutine/article", cpu, "coroutine", "article", results)
        results.figure("hop-bytes", list(columns["pipe"][2]), "bytes", ".1f")

    return "hop", f"an item passes one stage more, of {FEW} to {MANY}", run


def sieve():
    def run(place, options, results):
        contenders = [Contender("sieve", way) for way in ("pipe", "conduit", "pipes")]
        for case, limit in (("sieve", PRIMES), ("sieve-more", MORE_PRIMES)):
            print(f"  to {limit:,}")
            samples, areas = contest(place, dict.fromkeys(contenders, limit), sum_of_primes, options)
            table(case, per_item(samples, areas, dict.fromkeys(contenders, 1e6)), results, "ms", "MB")
            require(samples, contenders[0])
            cpu = {who.way: column(samples, who, "cpu") for who in samples}
            for theirs in ("conduit", "pipes"):
                compare(f"{case}/{theirs}", cpu, "pipe", theirs, results)

    return "sieve", f"the primes to {PRIMES:,}, a stage for each, and the first 10,000 primes", run


def sum_of_primes(n):
    composite = bytearray(n + 1)
    for p in range(2, n + 1):
        if not composite[p]:
            composite[p * p :: p] = b"\1" * len(range(p * p, n + 1, p))
    return sum(p for p in range(2, n + 1) if not composite[p])


def linear(case, place, few, many, right, options, results):
    """CPU times in ms of a work and of a greater one; prints how much longer each item takes in that.

    With room for all, and with collections in between; the times are those with room.
    """
    sizes = (few, many)
    factor = many[1] * (many[0].stages or 1) / (few[1] * (few[0].stages or 1))
    with_room = None
    try:
        for area in (ROOM, TIGHT):
            times = ([], [])
            for which in in_turn((0, 1), options.rounds):
                who, n = sizes[which]
                run = place.sample(who, n, area)
                if run.answer != right(n):
                    raise Unable(f"{title(who)} says {run.answer}, not {right(n)}")
                times[which].append(run.cpu / 1e6)
            small, great = times
            growth = statistics.median(more / less for less, more in zip(small, great)) / factor
            print(f"  {many[0].way:12}  {spread(small, '.3f'):>28}  {spread(great, '.3f'):>28}  -A{area:4}", end="")
            print(f"  {growth:.2f} times as long for each")
            for (who, n), values in zip(sizes, times):
                results.measured(f"{who.job}-A{area}", f"{title(who)} {n}", cpu_ms=values)
            if case and area == ROOM:
                ratios(case, [time / factor for time in great], small, results)
            with_room = with_room or times
    except Unable as reason:
        print(f"  without {reason}")
    return with_room


def binds():
    small, middle, great = 1000, 10000, 100000
    most = 10 * great

    def run(place, options, results):
        def of(case, way, few, many):
            sizes = ((Contender("binds", way), n) for n in (few, many))
            return linear(case, place, *sizes, total, options, results)

        print(f"  CPU ms for {great:,} and for {most:,}")
        made = [of(f"binds-linear/{way}", way, great, most) for way in ("pipe", "coroutine")]
        of(None, "conduit", great, most)
        print(f"  CPU ms for {small:,} and for {middle:,}")
        article = of(None, "article", small, middle)
        of(None, "pipes", small, middle)
        for way in ("pipe", "coroutine"):
            ours = of(None, way, small, middle)
            if ours and article:
                ratios(f"binds-{middle}-{way}/article", ours[1], article[1], results)
        if None in made:
            raise Unable("this many binds did not run")

    return "binds", f"{most:,} binds nested to the left, against {great:,}", run


def stages():
    items, few, many = 10, 10000, 100000

    def run(place, options, results):
        def of(case, way, less, more):
            pair = [(Contender("stages", way, n), items) for n in (less, more)]
            return linear(case, place, *pair, total, options, results)

        print(f"  {items} items; CPU ms through a tenth of the stages, and through all")
        made = [of(f"stages-linear/{way}", f"pipe-{way}", few, many) for way in ("left", "right")]
        for way in ("conduit", "pipes"):
            theirs = of(None, way, few, many)
            for mine, ours in zip(("left", "right"), made):
                if ours and theirs:
                    ratios(f"stages-{mine}/{way}", ours[1], theirs[1], results)
        if None in made:
            raise Unable("a pipeline of this many stages did not run")

    return "stages", f"{items} items through {many:,} stages, against {few:,}", run


# The first is the one that the others do, too.
CHAINS = {
    "": "map, filter, a state, three for one, take, sum",
    "-four": "the same without three for one",
    "-actions": "four actions in a row",
    "-zip": "the product of two streams",
    "-scan": "the sum of running sums",
    "-both": "two folds at once",
}


def fused():
    def run(place, options, results):
        for suffix, what in CHAINS.items():
            flow, hand, c = (Contender("fused", way) for way in (f"flow{suffix}", f"hand{suffix}", "c"))
            sizes = dict.fromkeys([flow, hand], place.size(flow))
            n = sizes[flow]
            if not suffix:
                sizes[c] = n
                sizes.update(dict.fromkeys([Contender("fused-peers", way) for way in ("conduit", "pipes")], n // 20))
            print(f"  {what}")
            right = {size: place.once(hand, size, AREAS[0]).answer for size in set(sizes.values())}
            samples, areas = contest(place, sizes, right.get, options)
            table(f"fused{suffix}", per_item(samples, areas, sizes), results)
            require(samples, flow, hand)
            cpu = {who.way: [row.cpu / sizes[who] for row in samples[who]] for who in samples}
            compare(f"fused{suffix}/hand", cpu, flow.way, hand.way, results)
            for theirs in ("c", "conduit", "pipes"):
                compare(f"fused/{theirs}", cpu, "flow", theirs, results)
            # What is allocated once for all is not in the difference.
            least, most = (place.once(flow, size, areas[flow]).bytes for size in (n, 2 * n))
            results.figure(f"fused{suffix}-bytes", (most - least) / n, "bytes", ".4f")

    return "fused", "chains in Heddle.Flow: one loop?", run


def instructions():
    """A count does not depend on what else the machine does, so one run is enough."""
    size = 100000

    def count(place, way, n):
        program = found(os.path.join(BUILD, "bench-coroutine-fused"))
        command = [found("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", program, way, str(n), "+RTS", "-A32m"]
        process = place.start(command, {place.cores[0]}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        collected = re.search(r"Collected : (\d+)", place.end(process)[1])
        if not collected:
            raise Unable(f"{' '.join(command)} has counted nothing")
        return int(collected[1])

    def run(place, _options, results):
        for suffix, what in CHAINS.items():
            # The program does the work twice; what is done once for all is not in the difference.
            each = {}
            for way in ("flow", "hand"):
                few, many = (count(place, way + suffix, n) for n in (size, 2 * size))
                each[way] = (many - few) / (2 * size)
                results.figure(f"instructions-{way}{suffix}", each[way], "instructions", ".2f")
            print(f"  {what}: {each['flow']:.2f} instructions for each number, by hand {each['hand']:.2f}")

    return "instructions", "instructions of the chains in Heddle.Flow for each number, counted by callgrind", run


# -------------------------------------------------------------------------------------------- texts


def pipe_command(jobs, expression, *paths):
    return [HEDDLE, "pipe", "-j", str(jobs), expression, *paths]


def warm(place, commands, cores):
    """Runs each once, and keeps those that can; the outputs have to be the same."""
    kept, first = {}, None
    for name, command in commands.items():
        try:
            output = place.timed(command, cores, 1).output
        except Unable as reason:
            print(f"  without {reason}")
            continue
        first = first or (name, output)
        if output != first[1]:
            raise Unable(f"{name} and {first[0]} do not agree: {output[:60]!r}, {first[1][:60]!r}")
        kept[name] = command
    require(kept, "heddle")
    return kept, first[1]


def print_times(case, samples, results):
    print(f"  {'':12}  {'wall ms':>26}  {'CPU ms':>26}  {'resident KB':>12}")
    for name, rows in samples.items():
        wall, cpu = (spread([getattr(row, field) for row in rows], ".1f") for field in ("wall_ms", "cpu_ms"))
        print(f"  {name:12}  {wall:>26}  {cpu:>26}  {max(row.kb for row in rows):>12,.0f}")
        results.measured(case, name, **{field: [getattr(row, field) for row in rows] for field in Timed._fields[:3]})


def searching(case, expression, grep_option, twin, what):
    def run(place, options, results):
        log, cores = place.text(), {place.cores[0]}
        commands = {
            "grep": ["grep", grep_option, "-F", WANTED, log],
            "heddle": pipe_command(1, expression, log),
            "rg": ["rg", "--no-config", "--threads", "1", grep_option, "--fixed-strings", WANTED, log],
            "c": [os.path.join(BUILD, "lines"), twin, WANTED, log],
        }
        commands, output = warm(place, commands, cores)
        print(f"  {os.path.getsize(log):,} bytes; {expression}; the answer has {len(output):,} bytes")
        samples = {name: [] for name in commands}
        for name in in_turn(commands, options.rounds):
            run = place.timed(commands[name], cores)
            if run.output != output:
                raise Unable(f"{name} has another answer now: {run.output[:60]!r}")
            samples[name].append(run)
        print_times(case, samples, results)
        cpu = {name: column(samples, name, "cpu_ms") for name in samples}
        for theirs in ("grep", "rg", "c"):
            compare(f"{case}/{theirs}", cpu, "heddle", theirs, results)

    return case, what, run


def grep_cores():
    # And how often the text is read: several files are one stream.
    expressions = {
        "": (f'count row having "{WANTED}"', 8),
        "-several": (f'count row having ("{WANTED}" or "/9999 " or "curl")', 4),
        "-regex": ('count row having /" 404 [0-9]*5 /', 1),
    }

    def run(place, options, results):
        log, both = place.text(), set(place.cores[:2])
        for suffix, (expression, copies) in expressions.items():
            files = [log] * copies
            commands = {"heddle": 1, "heddle -j2": 2}
            commands = {name: pipe_command(jobs, expression, *files) for name, jobs in commands.items()}
            commands, output = warm(place, commands, both)
            require(commands, "heddle -j2")
            samples = {name: [] for name in [*commands, "twice"]}
            for name in in_turn(samples, options.rounds):
                if name == "twice":
                    # What the machine has to give: two processes, each with half of the time for all.
                    pair = [place.begin(commands["heddle"], {core}, TIMES) for core in place.cores[:2]]
                    runs = [place.time_of(process) for process in pair]
                else:
                    runs = [place.timed(commands[name], both)]
                if {run.output for run in runs} != {output}:
                    raise Unable(f"{name} has another answer now")
                samples[name].append(Timed(*(statistics.mean(values) for values in list(zip(*runs))[:3]), output))
            print(f"  {expression}: {output.decode().strip()} in {copies} x {MEGABYTES} MB")
            print_times(f"grep-cores{suffix}", samples, results)
            wall = {name: column(samples, name, "wall_ms") for name in samples}
            ceiling = [2 * one / time for one, time in zip(wall["heddle"], wall["twice"])]
            gain = [one / two for one, two in zip(wall["heddle"], wall["heddle -j2"])]
            print(f"  {spread(gain, '.2f', 'ratio')} times faster on two cores;", end="")
            print(f" two processes at once: {spread(ceiling, '.2f', 'ratio')}")
            results.ratio(f"grep-cores{suffix}-speed-up", gain)
            results.ratio(f"grep-cores{suffix}-twice", ceiling)

    return "grep-cores", "the same text on one core and on two", run


def stream():
    expression = f'count row having "{WANTED}"'

    def run(place, options, results):
        one = place.start(log_text(1, 1000), set(place.cores), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        block = place.end(one)[0]
        wanted = STREAM_MEGABYTES * sum(WANTED.encode() in line for line in block.split(b"\n"))
        most = []
        for jobs in (1, 2):
            source = place.start(log_text(1, 1000, STREAM_MEGABYTES), set(place.cores), stdout=subprocess.PIPE)
            try:
                run = place.timed(pipe_command(jobs, expression), set(place.cores), 1, source.stdout)
            finally:
                source.stdout.close()
                place.stop(source)
            if run.output.strip() != str(wanted).encode():
                raise Unable(f"heddle pipe -j {jobs} says {run.output[:60]!r}, not {wanted}")
            size = len(block) * STREAM_MEGABYTES
            print(
                f"  -j {jobs}: {size:,} bytes, {wanted:,} lines; {size / run.wall_ms / 1e6:.2f} GB/s,"
                f" {run.cpu_ms / 1e3:.2f} s of CPU time, {run.kb / 1024:.1f} MB resident at most"
            )
            most.append(run.kb / 1024)
        results.figure("stream-resident-mb", max(most), "MB", ".1f")

    return "stream", f"{STREAM_MEGABYTES // 1000} GB through standard input", run


CASES = [
    hop(),
    sieve(),
    binds(),
    stages(),
    fused(),
    instructions(),
    searching("grep-count", f'count row having "{WANTED}"', "-c", "count", "lines with a text, counted: grep -c"),
    searching("grep-number", f'select row having "{WANTED}" numbered', "-n", "number", "the same, numbered: grep -n"),
    grep_cores(),
    stream(),
]
