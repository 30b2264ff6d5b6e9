"""Walking and searching directory trees: the cases of `run.py find`.

Every program starts from bench/build/timed, which takes wall time, CPU time and the most resident memory
from wait4, and all are placed by the kernel as it likes. The tree is in the kernel's caches: each program
has walked it before the first round.

Output goes to one file in memory (tmpfs), which is overwritten: the same cheap sink for all, which
needs no second process that would take part of a core, and which no program takes for /dev/null. What
was written is compared: all must print the same set of paths.
"""
import collections
import os
import statistics
import subprocess
import tempfile

from harness import BUILD, HEDDLE, Unable, Workplace, core_counts, found, in_turn, ratios, spread

ENOUGH = 100000
# A sample is the median of as many runs in a row.
TIMES = 3
NOWHERE = "nonexistent"

Run = collections.namedtuple("Run", "wall_ms cpu_ms kb")


class FindPlace(Workplace):
    """The trees, and the file for output."""

    def __init__(self):
        super().__init__()
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else self.folder
        handle, self.output = tempfile.mkstemp(prefix="heddle-bench-", dir=memory)
        os.close(handle)
        self.trees = {}
        self.said = "nothing"

    def close(self):
        os.unlink(self.output)
        super().close()

    def describe(self, options):
        return f"tree {options.tree}; {options.rounds} rounds of {TIMES} runs; estimate [95 % interval]"

    def tree(self, options):
        """The tree that was asked for, or enough copies of it."""
        if "given" not in self.trees:
            root = os.path.normpath(options.tree)
            if not os.path.isdir(root):
                raise Unable(f"{root} is no directory; choose another --tree")
            count = 1 + sum(1 for _ in entries(root))
            if count < ENOUGH:
                copies = -(-ENOUGH // count)
                root = copy_shape(root, self.path("tree"), copies)
                count = 1 + sum(1 for _ in entries(root))
                print(f"  {options.tree} has fewer than {ENOUGH:,} entries: {copies} copies of its shape")
            self.trees["given"] = (root, count)
        return self.trees["given"][0]

    def plain_tree(self, options):
        """Its shape without symbolic links, which the seed's programs follow, in circles even."""
        if "plain" not in self.trees:
            self.trees["plain"] = copy_shape(self.tree(options), self.path("plain"))
        return self.trees["plain"]

    def timed(self, command, times=TIMES):
        """The median of some runs, one after the other. An unreadable directory makes a find end with 1."""
        program = [found(os.path.join(BUILD, "timed")), "-n", str(times), "-o", self.output]
        command = [found(command[0]), *command[1:]]
        process = self.start(program + command, set(self.cores), stderr=subprocess.PIPE, text=True)
        try:
            complaint = process.communicate(timeout=600)[1]
        except subprocess.TimeoutExpired:
            raise Unable(f"{' '.join(command)} did not end within 600 s") from None
        finally:
            self.stop(process)
        lines = complaint.splitlines()
        rows = [line.split()[1:] for line in lines if line.startswith("timed ")]
        self.said = next((line for line in lines if not line.startswith("timed ")), "nothing")
        codes = {os.waitstatus_to_exitcode(int(row[4])) for row in rows}
        if process.returncode != 0 or len(rows) != times or not codes <= {0, 1}:
            raise Unable(f"{' '.join(command)} ended with {max(codes, default=1)}; it said: {self.said}")
        values = [(float(wall) / 1e3, (int(user) + int(system)) / 1e3, int(kb)) for wall, user, system, kb, _ in rows]
        wall, cpu, kb = (statistics.median(column) for column in zip(*values))
        return Run(wall, cpu, round(kb))

    def written(self):
        with open(self.output, "rb") as file:
            return file.read()


def entries(folder):
    with os.scandir(folder) as listing:
        for entry in listing:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from entries(entry.path)


def copy_shape(source, target, copies=1):
    """The directories, and an empty file in place of everything else."""
    for number in range(copies):
        base = os.path.join(target, str(number)) if copies > 1 else target
        os.makedirs(base)
        for entry in entries(source):
            path = base + entry.path[len(source) :]
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(path)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return target


# --------------------------------------------------------------------------------------- contenders


def heddle(root, *options, jobs=1, expression=()):
    return [HEDDLE, "find", "-j", str(jobs), *options, root, *expression]


def gnu_find(root, *expression):
    return ["find", root, *expression]


def c_walk(root, *expression):
    return [os.path.join(BUILD, "walk"), root, *expression]


def fd(root, jobs=2):
    return ["fdfind", "-j", str(jobs), "--unrestricted", "--unrestricted", "--color", "never", ".", root]


def bfs(root):
    return ["bfs", root]


def ancestor(name, arguments, cores, *flags):
    return [os.path.join(BUILD, f"bench-{name}"), *arguments, "+RTS", f"-N{cores}", *flags]


# -------------------------------------------------------------------------------------------- cases


def paths_of(output, root):
    """The paths that any of the programs printed: fd leaves out the root and ends directories with a slash."""
    lines = {line[:-1] if line.endswith(b"/") else line for line in output.split(b"\n")}
    return lines - {b"", os.fsencode(root)}


def warm(place, commands, check):
    """Runs each once, and keeps those whose output passes."""
    kept = {}
    for name, command in commands.items():
        try:
            place.timed(command, 1)
            wrong = check(place.written())
            if wrong:
                raise Unable(f"{name}: {' '.join(command)} printed {wrong}; it said: {place.said}")
            kept[name] = command
        except Unable as reason:
            print(f"  without {reason}")
    return kept


def same_paths(root):
    """A check against the first output that it sees, which should be GNU find's."""
    first = []

    def check(output):
        paths = paths_of(output, root)
        if not first:
            first.append(paths)
        missing, more = len(first[0] - paths), len(paths - first[0])
        return f"{missing} paths too few and {more} too many" if missing or more else None

    return check


def rounds_of(place, commands, options, times=TIMES):
    samples = {name: [] for name in commands}
    for name in in_turn(commands, options.rounds):
        samples[name].append(place.timed(commands[name], times))
    return samples


def print_table(case, samples, results):
    width = max(len(name) for name in samples)
    print(f"  {'':{width}}  {'wall ms':>24}  {'CPU ms':>24}  {'resident KB':>12}")
    for name, rows in samples.items():
        wall, cpu = (spread([getattr(row, field) for row in rows], ".1f") for field in ("wall_ms", "cpu_ms"))
        print(f"  {name:{width}}  {wall:>24}  {cpu:>24}  {max(row.kb for row in rows):>12,}")
        columns = {field: [getattr(row, field) for row in rows] for field in ("wall_ms", "cpu_ms", "kb")}
        results.measured(case, name, **columns)


def compare(case, samples, mine, theirs, field, results):
    if mine in samples and theirs in samples:
        ratios(case, *([getattr(row, field) for row in samples[name]] for name in (mine, theirs)), results)


def walking():
    def run(place, options, results):
        root = place.tree(options)
        commands = {
            "find": gnu_find(root),
            "c-walk": c_walk(root),
            "heddle": heddle(root),
            "heddle -j2": heddle(root, jobs=2),
            "heddle --ordered": heddle(root, "--ordered"),
            "heddle --ordered -j2": heddle(root, "--ordered", jobs=2),
            "fd -j1": fd(root, 1),
            "fd -j2": fd(root),
            "bfs": bfs(root),
        }
        commands = warm(place, commands, same_paths(root))
        if not commands:
            raise Unable("no program could walk the tree")
        samples = rounds_of(place, commands, options)
        results.figure("find-paths", place.trees["given"][1], "paths", "d")
        print(f"  {place.trees['given'][1]:,} paths")
        print_table("walk", samples, results)
        for theirs in ("c-walk", "find"):
            compare(f"find-j1-cpu/{theirs}", samples, "heddle", theirs, "cpu_ms", results)
            compare(f"find-j1-wall/{theirs}", samples, "heddle", theirs, "wall_ms", results)
        for theirs, name in (("find", "find"), ("fd -j2", "fd-j2"), ("bfs", "bfs"), ("heddle", "heddle-j1")):
            compare(f"find-j2-wall/{name}", samples, "heddle -j2", theirs, "wall_ms", results)
        compare("find-ordered-j1/unordered", samples, "heddle --ordered", "heddle", "wall_ms", results)
        compare("find-ordered-j2/unordered", samples, "heddle --ordered -j2", "heddle -j2", "wall_ms", results)
        resident = [row.kb for name, rows in samples.items() if name.startswith("heddle") for row in rows]
        if resident:
            results.figure("find-resident-kb", max(resident), "KB", "d")

    return "walk", "all paths of the tree", run


def order():
    def run(place, options, results):
        root = place.tree(options)
        place.timed(heddle(root, "--ordered", jobs=2), 1)
        lines = place.written().splitlines()
        right = sorted(lines, key=lambda path: path.split(b"/")) == lines
        print(f"  {len(lines):,} paths, depth first by bytes: {'yes' if right else 'no'}")
        results.figure("find-ordered-is-sorted", int(right), "yes", "d")

    return "order", "what --ordered prints is sorted, depth first", run


def tiny():
    times = 100

    def run(place, options, results):
        root = place.path("ten")
        os.mkdir(root)
        for number in range(10):
            with open(os.path.join(root, f"file-{number}"), "wb"):
                pass
        commands = {
            "find": gnu_find(root),
            "c-walk": c_walk(root),
            "heddle": [HEDDLE, "find", root],
            "heddle -j1": heddle(root),
            "fd": fd(root),
            "bfs": bfs(root),
        }
        commands = warm(place, commands, same_paths(root))
        samples = rounds_of(place, commands, options, times)
        print(f"  median of {times} runs in each round, from posix_spawn to the end of wait4")
        print_table("tiny", samples, results)
        if "heddle" in samples:
            results.figure("find-tiny-ms", [row.wall_ms for row in samples["heddle"]], "ms")
        compare("find-tiny/find", samples, "heddle", "find", "wall_ms", results)

    return "tiny", "a directory of ten files, the start of the program included", run


def seed():
    def run(place, options, results):
        root = place.plain_tree(options)
        nothing = ("-name", NOWHERE)
        commands = {
            "findseq": ancestor("findseq", [NOWHERE, root], 1),
            "findpar3 -N2": ancestor("findpar3", [NOWHERE, root], 2),
            "find": gnu_find(root, *nothing),
            "c-walk": c_walk(root, *nothing),
            "heddle": heddle(root, expression=nothing),
            "heddle -j2": heddle(root, jobs=2, expression=nothing),
        }

        def check(output):
            return None if output in (b"", b"Nothing\n") else f"{output[:40]!r}"

        samples = rounds_of(place, warm(place, commands, check), options, 1)
        print(f"  the tree's shape without symbolic links, looking for {NOWHERE}")
        print_table("seed", samples, results)
        for mine, name in (("heddle", "find-seed-j1"), ("heddle -j2", "find-seed-j2")):
            for theirs in ("findseq", "find"):
                compare(f"{name}/{theirs}", samples, mine, theirs, "wall_ms", results)
        compare("find-seed-findseq/find", samples, "findseq", "find", "wall_ms", results)

    return "seed", "a name that is not there, against the seed's findseq", run


STATISTICS = (
    ("alloc MB", "bytes allocated", 1e6, ",.1f"),
    ("copied MB", "copied_bytes", 1e6, ",.1f"),
    ("max live MB", "max_bytes_used", 1e6, ",.1f"),
    ("total MB", "max_mem_in_use_bytes", 1e6, ",.0f"),
    ("MUT s", "mut_wall_seconds", 1, ".2f"),
    ("GC s", "GC_wall_seconds", 1, ".2f"),
    ("elapsed s", "total_wall_seconds", 1, ".2f"),
)


NO_UNITS = ("findpar3", "findpar4", "findpar5", "findheddle")


def ancestors():
    def run(place, options, results):
        root = place.plain_tree(options)
        seen = place.path("statistics")
        counts = core_counts(place)
        contenders = [("findseq", [], 1), *(("findpar", [], cores) for cores in counts)]
        contenders += [("findpar2", ["0"], 1), ("findpar2", ["1"], 2), ("findpar2", ["2"], 2), ("findpar2", ["8"], 2)]
        contenders += [(name, [], cores) for name in NO_UNITS for cores in counts]
        commands = {
            " ".join([name, *units, f"-N{cores}"]): ancestor(
                name, [*units, NOWHERE, root], cores, f"-t{seen}", "--machine-readable"
            )
            for name, units, cores in contenders
        }
        commands = warm(place, commands, lambda output: None if output == b"Nothing\n" else f"{output[:40]!r}")
        rows = {name: [] for name in commands}
        for name in in_turn(commands, options.rounds):
            place.timed(commands[name], 1)
            rows[name].append(statistics_of(seen))
        print(f"  +RTS -s, medians; the tree's shape without symbolic links, looking for {NOWHERE}")
        base = median_of(rows["findseq -N1"], "total_wall_seconds") if "findseq -N1" in rows else None
        # As docs/papers/pcph-ch13.md has it.
        titles = ["program", *(title for title, *_ in STATISTICS), "speed-up"]
        print_row(titles)
        print_row(["---", *("---:" for _ in titles[1:])])
        for name, runs in rows.items():
            cells = [f"{median_of(runs, key) / unit:{form}}" for _, key, unit, form in STATISTICS]
            gain = base / median_of(runs, "total_wall_seconds") if base else None
            print_row([f"`{name}`", *cells, f"{gain:.2f}" if gain else "–"])
            quantities = {
                column.lower().replace(" ", "_"): [run[key] / unit for run in runs] for column, key, unit, _ in STATISTICS
            }
            results.measured("ancestors", name, **quantities, **({"speed_up": [gain]} if gain else {}))

    return "ancestors", "the chapter's programs, with its table of figures", run


def print_row(cells):
    print(f"| {cells[0]:18} |" + "".join(f" {cell:>11} |" for cell in cells[1:]))


def statistics_of(path):
    """The pairs of names and numbers that `+RTS -t --machine-readable` writes, below the command line."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    words = text[text.index("[(") :].replace("[", "").replace("]", "").split('"')
    return {key: float(value) for key, value in zip(words[1::4], words[3::4])}


def median_of(rows, key):
    return statistics.median(row[key] for row in rows)


def start():
    times = 100

    def run(place, options, results):
        commands = {
            "find --version": ["find", "--version"],
            "heddle --version": [HEDDLE, "--version"],
            "heddle find --version": [HEDDLE, "find", "--version"],
            "heddle serve --help": [HEDDLE, "serve", "--help"],
            "heddle pipe --help": [HEDDLE, "pipe", "--help"],
            "heddle json --help": [HEDDLE, "json", "--help"],
        }
        commands = warm(place, commands, lambda output: None if output else "nothing")
        samples = rounds_of(place, commands, options, times)
        print(f"  median of {times} runs in each round, from posix_spawn to the end of wait4")
        print_table("start", samples, results)
        for name, rows in samples.items():
            if name.startswith("heddle"):
                key = name.replace("heddle ", "").replace(" ", "").replace("--", "-").lstrip("-")
                results.figure(f"find-start-ms/{key}", [row.wall_ms for row in rows], "ms")

    return "start", "what each command takes to start and end", run


CASES = [walking(), order(), tiny(), start(), seed(), ancestors()]
