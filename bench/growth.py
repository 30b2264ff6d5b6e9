"""What would grow with the number of cores, counted: the cases of `run.py growth`.

Two cores cannot show how a curve over forty goes on. But a curve bends where cores write to the same memory or call each other, and
that can be counted on any machine: locked instructions and context switches of a request, barriers of a steal, bytes of a
connection, and what one write to a line of memory costs that another core has written. The results' page makes a model of them.

Locked instructions are counted by callgrind, which runs one thread at a time: they are those of the program's own code, whether
another core writes to the same memory or not, and so a bound. The kernel's are not in it.
"""
import collections
import os
import re
import signal
import statistics
import subprocess

from harness import BUILD, Unable, core_counts, found, how_to_get, in_turn, processes, spread
from servers import Server, ServerPlace, c_twin, heddle, memory_of, nginx, own, settled_memory, start_all, wrk

# Seconds of load: what both have in common is not counted.
FEW, MANY = 1, 4
# Without the runtime's clock tick, which takes a lock now and then.
STILL = ("+RTS", "-V0", "-RTS")


class GrowthPlace(ServerPlace):
    """A site to serve, two cores, and no other load."""

    def describe(self, options):
        return f"{len(self.cores)} cores; {options.rounds} rounds; counts are exact, or of one run"

    def output(self, command, cores, limit=300):
        process = self.start([found(command[0]), *command[1:]], cores, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, complaint = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise Unable(f"{' '.join(command)} did not end within {limit} s") from None
        finally:
            self.stop(process)
        if process.returncode != 0:
            said = complaint.strip().splitlines()[-1:] or ["nothing"]
            raise Unable(f"{' '.join(command)} ended with {process.returncode}; it said: {said[0]}")
        return output, complaint


def counting(command, out):
    """The same command under callgrind, which also counts locked instructions (its global bus events)."""
    return [found("valgrind"), "--tool=callgrind", "--collect-bus=yes", f"--callgrind-out-file={out}", *command]


def counts_of(path):
    """Instructions of all threads; and locked ones by function."""
    names, function, inclusive = {}, None, False
    instructions, locked = 0, collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            named = re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line)
            if named:
                if named[2]:
                    names[named[1]] = named[2].partition("@")[0].partition("'")[0]
                if line.startswith("fn="):
                    function = names[named[1]]
            elif line.startswith("calls="):
                # The next line is what the call cost with everything below it.
                inclusive = True
            elif line[0] in "+-*0123456789":
                costs = [int(word) for word in line.split()[1:]]
                if not inclusive and costs:
                    instructions += costs[0]
                    locked[function] += costs[1] if len(costs) > 1 else 0
                inclusive = False
    if instructions == 0:
        raise Unable("callgrind has counted nothing")
    return instructions, locked


def kinds(locked):
    """Who runs them: system calls of the C library, which can be cancelled, write the calling thread's own descriptor; a mutex is
    there because another thread may hold it; of the rest, whose memory it is is not known."""
    found = {"own": 0, "mutex": 0, "other": 0}
    for function, number in locked.items():
        kind = "own" if "asynccancel" in function else "mutex" if function.lstrip("_").startswith(("pthread_mutex", "pthread_cond", "condvar", "lll_")) else "other"
        found[kind] += number
    return found


# ---------------------------------------------------------------------------------- locked instructions


def locked_requests():
    def contenders(place, count):
        return {
            "heddle": own("bench-fixed-heddle", *STILL, cores=count),
            "http": own("bench-wai-heddle", *STILL, cores=count),
            "c-twin": c_twin("fixed", count),
            "stock": own("bench-fixed-stock", *STILL, cores=count),
        }

    def counted(place, name, command, seconds):
        out = place.path(f"callgrind-{name}-{seconds}")
        server = Server(place, name, lambda port: counting(command(port), out), cores={place.server_core}, patience=60)
        try:
            load = wrk(place, 64, "/")(server, seconds)
        finally:
            # callgrind writes its counts when the signal ends the program.
            server.stop()
        return load.rate * seconds, counts_of(out)

    def run(place, _options, results):
        for count in core_counts(place)[:2]:
            for name, command in contenders(place, count).items():
                try:
                    (few, before), (many, after) = (counted(place, f"{name}-{count}", command, seconds) for seconds in (FEW, MANY))
                except Unable as reason:
                    print(f"  without {reason}")
                    continue
                requests = many - few
                instructions = (after[0] - before[0]) / requests
                each = {kind: number / requests for kind, number in kinds(after[1] - before[1]).items()}
                shown = ", ".join(f"{kind} {number:.2f}" for kind, number in each.items())
                print(f"  {name:8} on {count}: {instructions:>10,.0f} instructions and {sum(each.values()):>7.2f} locked ones for a request: {shown}")
                for function, number in (after[1] - before[1]).most_common(6):
                    print(f"    {number / requests:>8.2f} {function}")
                results.measured("locked-requests", f"{name}-on-{count}", instructions=[instructions], locked=[sum(each.values())], **{f"{kind}_locked": [number] for kind, number in each.items()})

    return "locked-requests", "locked instructions of a request, the program's own, counted by callgrind", run


def locked_tasks():
    # A program, what it is told before how many, and after.
    work = {
        "heddle": ("bench-par-heddle", ("fork",), ("1",)),
        "monad-par": ("bench-par-monad-par", ("fork",), ("1",)),
        "sparks": ("bench-par-sparks", ("fork",), ("1",)),
        "rendezvous": ("bench-rendezvous-heddle", ("2",), ()),
        "rendezvous-mvar": ("bench-rendezvous-mvar", ("2",), ()),
    }
    sizes = (20000, 60000)

    def run(place, _options, results):
        for name, (program, before, after) in work.items():
            counts = []
            try:
                for size in sizes:
                    out = place.path(f"callgrind-{name}-{size}")
                    command = [os.path.join(BUILD, program), *before, str(size), *after, "+RTS", "-N2", "-V0", "-A4m"]
                    if not os.path.exists(command[0]):
                        raise Unable(f"{program} is not there; {how_to_get(command[0])}")
                    place.output(counting(command, out), {place.cores[0]})
                    counts.append(counts_of(out))
            except Unable as reason:
                print(f"  without {reason}")
                continue
            # Programs of rendezvous warm up with a tenth more.
            times = (sizes[1] - sizes[0]) * (1.1 if name.startswith("rendezvous") else 1)
            instructions, locked = (counts[1][0] - counts[0][0]) / times, sum((counts[1][1] - counts[0][1]).values()) / times
            print(f"  {name:16} {instructions:>10,.0f} instructions and {locked:>7.2f} locked ones")
            results.measured("locked-tasks", name, instructions=[instructions], locked=[locked])

    return "locked-tasks", "locked instructions of a task that is forked and awaited, and of a rendezvous of two, by callgrind", run


# ------------------------------------------------------------------------------------- what cores pay


def shared():
    def run(place, options, results):
        program = os.path.join(BUILD, "shared")
        if not os.path.exists(program):
            raise Unable(f"shared is not there; {how_to_get(program)}")
        kinds = [(f"{kind}-on-{count}", kind, count if kind != "barrier" else count - 1) for kind in ("line", "own", "barrier") for count in core_counts(place)]
        kinds.append(("wake", "wake", 1))
        samples = {name: [] for name, _, _ in kinds}
        asked = {name: (kind, threads) for name, kind, threads in kinds}
        for name in in_turn(samples, options.rounds):
            kind, threads = asked[name]
            words = place.output([program, f"--{kind}", str(threads)], set(place.cores))[0].split()
            samples[name].append(float(words[1]))
        for name, values in samples.items():
            print(f"  {name:14} {spread(values, '.1f'):>26} ns")
            results.measured("shared", name, ns=values)

    return "shared", "an atomic addition to a line that others write, to an own line, a membarrier, by cores; waking another core", run


def steals():
    # Workloads of bench/par: name, size, grain and how many tasks a time has.
    workloads = {"fib-fine": ("fib", 30, 1), "fib": ("fib", 36, 20), "map-fine": ("map", 4000000, 40), "queens-fine": ("queens", 10, 10)}

    def run(place, _options, results):
        program = os.path.join(BUILD, "bench-par-heddle-logged")
        if not os.path.exists(program):
            raise Unable(f"bench-par-heddle-logged is not there; {how_to_get(program)}")
        for name, work in workloads.items():
            log, calls = place.path(f"{name}.eventlog"), place.path(f"{name}.strace")
            # Only barriers are stopped for: the kernel filters the other calls.
            trace = [found("strace"), "-c", "-f", "--seccomp-bpf", "-e", "trace=membarrier", "-o", calls]
            place.output([*trace, program, "-n", "4", *map(str, work), "+RTS", "-N2", "-A4m", "-l-au", f"-ol{log}"], set(place.cores[:2]))
            with open(log, "rb") as file:
                events = file.read()
            stolen = events.count(b"heddle sched steal")
            with open(calls, encoding="utf-8") as file:
                row = re.search(r"(\d+)\s+(?:\d+\s+)?membarrier$", file.read(), re.MULTILINE)
            # One call registers the process.
            barriers = max(int(row[1]) - 1, 0) if row else 0
            tasks = 4 * tasks_of(*work)
            each = barriers / stolen if stolen else 0
            print(f"  {name:12} {tasks:>12,} tasks, {stolen:>8,} steals, {barriers:>8,} membarriers: {each:.3f} a steal, {1e6 * stolen / tasks:,.1f} steals in a million tasks")
            results.measured("steals", name, tasks=[tasks], steals=[stolen], membarriers=[barriers])
            results.figure(f"steals-{name}/membarriers", each, "calls", ".3f")
            results.figure(f"steals-{name}/per-million-tasks", 1e6 * stolen / tasks, "steals", ".1f")

    return "steals", "steals, and membarriers for each, of tasks on two cores (the event log and strace count)", run


def tasks_of(kind, size, grain):
    """How many tasks a time has."""
    if kind == "map":
        return -(-size // grain)
    if kind == "queens":
        return queens(size, grain)
    counts = {}

    def fib(n):
        if n <= grain:
            return 0
        if n not in counts:
            counts[n] = 1 + fib(n - 1) + fib(n - 2)
        return counts[n]

    return fib(size)


def queens(size, depth):
    """The moves of the boards whose rows are all within the depth."""

    def below(row, columns, left, right):
        if row == depth or row == size:
            return 0
        free = ~(columns | left | right) & ((1 << size) - 1)
        total = 0
        while free:
            bit = free & -free
            free ^= bit
            total += 1 + below(row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
        return total

    return below(0, 0, 0, 0)


# ------------------------------------------------------------------------------- switches and lock waits


def switches_of(root):
    """Context switches of all threads of a process and its children."""
    total = 0
    for pid in processes(root):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


def switches():
    def contenders(place, count):
        return {
            "heddle": own("bench-fixed-heddle", cores=count),
            "c-twin": c_twin("fixed", count),
            "stock": own("bench-fixed-stock", cores=count),
        }

    def run(place, options, results):
        servers, samples = {}, {}
        try:
            for count in core_counts(place):
                for name, command in contenders(place, count).items():
                    try:
                        servers[f"{name}-on-{count}"] = Server(place, f"{name}-on-{count}", command, cores=set(place.cores[:count]))
                    except Unable as reason:
                        print(f"  without {reason}")
            samples = {name: [] for name in servers}
            load = wrk(place, 400, "/", 1, set(place.cores[-1:]))
            for name in in_turn(servers, options.rounds):
                before = switches_of(servers[name].process.pid)
                sample = load(servers[name], options.seconds)
                more = switches_of(servers[name].process.pid) - before
                samples[name].append((more / options.seconds, more / (sample.rate * options.seconds)))
            for name, rows in samples.items():
                each, request = ([row[at] for row in rows] for at in (0, 1))
                print(f"  {name:14} {spread(each, ',.0f'):>30} context switches a second, {spread(request, '.4f'):>26} a request")
                results.measured("switches", name, per_second=each, per_request=request)
        finally:
            for server in servers.values():
                server.stop()

    return "switches", "context switches of a request, by cores, 400 connections", run


def calls():
    """Of a server on two cores, those that concern other cores, or a list of the kernel that they may share."""
    counted = ("futex", "epoll_ctl", "epoll_wait", "membarrier", "write")

    def contenders(place):
        return {"heddle": own("bench-fixed-heddle", cores=2), "c-twin": c_twin("fixed", 2), "stock": own("bench-fixed-stock", cores=2)}

    def run(place, options, results):
        for name, command in contenders(place).items():
            out = place.path(f"calls-{name}")
            # Only these are stopped for: the kernel filters the others, so the load still saturates the server.
            trace = [found("strace"), "-c", "-f", "--seccomp-bpf", "-e", f"trace={','.join(counted)}", "-o", out]
            try:
                server = Server(place, name, lambda port: trace + command(port), cores=set(place.cores[:2]))
            except Unable as reason:
                print(f"  without {reason}")
                continue
            try:
                requests = sum(wrk(place, 400, "/")(server, options.seconds).rate * options.seconds for _ in range(2))
                for pid in processes(server.process.pid)[1:]:
                    os.kill(pid, signal.SIGTERM)
                server.process.wait(30)
            finally:
                server.stop()
            with open(out, encoding="utf-8") as file:
                rows = dict(reversed(pair) for pair in re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", file.read(), re.MULTILINE))
            for call in counted:
                each = int(rows.get(call, 0)) / requests
                print(f"  {name:10} {each:>9.4f} {call} a request")
                results.measured("calls", name, **{f"{call}_calls": [each]})

    return "calls", "waits for locks, registrations and wake-ups of a request on two cores, 400 connections (strace)", run


# -------------------------------------------------------------------------------------------- memory


def kernel_bytes():
    """What the kernel has allocated for itself, that for sockets included."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.split(":")[0] in ("Slab", "KernelStack", "PageTables"))


def connections():
    shown = (1000, 2000, 4000, 8000, 15000)

    def run(place, _options, results):
        program = os.path.join(BUILD, "idle")
        if not os.path.exists(program):
            raise Unable(f"idle is not there; {how_to_get(program)}")
        count = min(shown[-1], (place.files - 1000) // 1000 * 1000)
        commands = {"heddle": heddle(place), "nginx": nginx(place, "off"), "warp": own("bench-warp")}
        for name, server in start_all(place, commands).items():
            try:
                empty, kernel = settled_memory(server.process.pid), kernel_bytes()
                points = []
                for number, (used, last) in memory_of(place, server, [program], count, lambda pid: (settled_memory(pid), kernel_bytes())):
                    points.append((number, used))
                slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
                both = (last - kernel) / count
                print(f"  {name:8} {slope:>8,.0f} bytes of the process and {both / 2:>8,.0f} of the kernel for a connection; {empty / 1e6:.1f} MB without any")
                results.measured("connections", name, process_bytes=[slope], kernel_bytes=[both / 2])
                for number, used in points:
                    if number in shown:
                        results.measured("connections", f"{name}-{number}", mb=[used / 1e6])
            finally:
                server.stop()

    return "connections", f"memory by the number of idle connections, to {shown[-1]:,}: the process's and the kernel's", run


CASES = [locked_requests(), locked_tasks(), shared(), steals(), switches(), calls(), connections()]
