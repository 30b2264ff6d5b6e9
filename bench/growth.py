"""What would grow with the number of cores, counted: the cases of `run.py growth`.

Two cores cannot show how a curve over forty goes on. But a curve bends where cores write to the same memory or call each other, and
that can be counted on any machine: locked instructions and context switches of a request, barriers of a steal, bytes of a
connection, and what one write to a line of memory costs that another core has written. The results' page makes a model of them.

Locked instructions are counted by callgrind, which runs one thread at a time: they are those of the program's own code, whether
another core writes to the same memory or not, and so a bound. The kernel's are not in it.
"""
import os
import re
import socket
import statistics
import subprocess
import time

from harness import BUILD, Unable, core_counts, found, how_to_get, in_turn, processes, spread
from servers import Server, ServerPlace, Strace, c_twin, heddle, memory_of, nginx, own, settled_memory, start_all, wrk

REQUEST = b"GET /151.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
CONNECTIONS = 8
FEW, MANY = 400, 2400
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


def totals(path):
    """Instructions and locked instructions, of all threads."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    summary = re.search(r"^(?:totals|summary): (.*)$", text, re.MULTILINE)
    if not (events and summary):
        raise Unable(f"callgrind has counted nothing: {text[:80]!r}")
    counts = dict(zip(events[1].split(), map(int, summary[1].split())))
    return counts["Ir"], counts.get("Ge", 0)


# ---------------------------------------------------------------------------------- locked instructions


def answered(port, count):
    """That many requests, over several connections that are kept, each answered before the next of its connection is sent."""
    kept = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(CONNECTIONS)]
    try:
        for number in range(count):
            conversation = kept[number % CONNECTIONS]
            conversation.sendall(REQUEST)
            got = b""
            while b"\r\n\r\n" not in got or b"</html>" not in got:
                piece = conversation.recv(65536)
                if not piece:
                    raise Unable(f"port {port} closed a connection after {number} requests")
                got += piece
    finally:
        for conversation in kept:
            conversation.close()


def locked_requests():
    def contenders(place, count):
        return {
            "heddle": own("bench-fixed-heddle", *STILL, cores=count),
            "serve": heddle(place, cores=count),
            "c-twin": c_twin("fixed", count),
            "stock": own("bench-fixed-stock", *STILL, cores=count),
        }

    def counted(place, name, command, requests):
        out = place.path(f"callgrind-{name}-{requests}")
        server = Server(place, name, lambda port: counting(command(port), out), cores=set(place.cores), patience=60)
        try:
            answered(server.port, requests)
        finally:
            # callgrind writes its counts when the signal ends the program.
            server.stop()
        return totals(out)

    def run(place, _options, results):
        for count in core_counts(place)[:2]:
            for name, command in contenders(place, count).items():
                try:
                    few, many = (counted(place, name, command, requests) for requests in (FEW, MANY))
                except Unable as reason:
                    print(f"  without {reason}")
                    continue
                instructions, locked = ((many[at] - few[at]) / (MANY - FEW) for at in (0, 1))
                print(f"  {name:8} on {count}: {instructions:>10,.0f} instructions and {locked:>7.2f} locked ones for a request")
                results.measured("locked-requests", f"{name}-on-{count}", instructions=[instructions], locked=[locked])

    return "locked-requests", "locked instructions of a request, the program's own, counted by callgrind", run


def locked_tasks():
    # A program, what it is told before how many, and after.
    work = {
        "heddle": ("bench-par-heddle", ("fork",), ("1",)),
        "monad-par": ("bench-par-monad-par", ("fork",), ("1",)),
        "sparks": ("bench-par-sparks", ("fork",), ("1",)),
        "rendezvous": ("bench-rendezvous-heddle", ("2",), ()),
        "rendezvous-mvar": ("bench-rendezvous-mvar", ("2",), ()),
        "rendezvous-stm": ("bench-rendezvous-stm", ("2",), ()),
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
                    counts.append(totals(out))
            except Unable as reason:
                print(f"  without {reason}")
                continue
            # Programs of rendezvous warm up with a tenth more.
            times = (sizes[1] - sizes[0]) * (1.1 if name.startswith("rendezvous") else 1)
            instructions, locked = ((counts[1][at] - counts[0][at]) / times for at in (0, 1))
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
        samples = {name: [] for name, _, _ in kinds}
        asked = {name: (kind, threads) for name, kind, threads in kinds}
        for name in in_turn(samples, options.rounds):
            kind, threads = asked[name]
            words = place.output([program, f"--{kind}", str(threads)], set(place.cores))[0].split()
            samples[name].append(float(words[1]))
        for name, values in samples.items():
            print(f"  {name:14} {spread(values, '.1f'):>26} ns")
            results.measured("shared", name, ns=values)

    return "shared", "an atomic addition to a line that others write, to an own line, and a membarrier, by cores", run


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
            place.output([*trace, program, *map(str, work), "4", "+RTS", "-N2", "-A4m", "-l-au", f"-ol{log}"], set(place.cores[:2]))
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
            for name, server in servers.items():
                if not name.endswith(f"-{core_counts(place)[-1]}"):
                    continue
                calls, requests = calls_of(place, server)
                for call in ("futex", "epoll_ctl", "epoll_wait", "membarrier"):
                    number = calls.get(call, (0, 0))[0] / requests
                    print(f"  {name:14} {number:>9.4f} {call} a request")
                    results.measured("switches", name, **{f"{call}_calls": [number]})
        finally:
            for server in servers.values():
                server.stop()

    return "switches", "context switches, waits for locks and registrations of a request, by cores, 400 connections", run


def calls_of(place, server):
    """The system calls of a server under load, and how many requests it received meanwhile."""
    command = [found("wrk"), "-t1", "-c400", "-d8s", f"http://127.0.0.1:{server.port}/"]
    load = place.start(command, {place.load_core}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        with Strace(place, server) as strace:
            time.sleep(3)
        # Each answer is one of these.
        requests = sum(number - errors for name, (number, errors) in strace.calls.items() if name in ("sendto", "sendmsg", "write", "writev"))
        if requests == 0:
            raise Unable(f"strace saw no request of {server.name}")
        return strace.calls, requests
    finally:
        place.stop(load)


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


CASES = [locked_requests(), locked_tasks(), shared(), steals(), switches(), connections()]
