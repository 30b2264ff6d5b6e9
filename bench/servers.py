"""Web servers and event managers under load: the cases of `run.py io` and `run.py serve`.

The server under test has one core and the load another. What is measured is CPU: the user and system
time of the server's processes, divided by the requests answered.

Servers run in the foreground, on free ports of the loopback interface, with their files in a temporary
folder.
"""
import collections
import grp
import http.client
import os
import pwd
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time

from harness import BENCH, BUILD, HEDDLE, Unable, Workplace, cpu_between, cpu_times, how_to_get, in_turn, memory_bytes
from harness import processes, ratios, spread

PAGE = (
    "<html><head><title>Hi</title></head><body bgcolor=white text=black>"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "</body></html>"
).encode()

CONNECTIONS = 16384
IDLE_SECONDS = 10

Sample = collections.namedtuple("Sample", "cpu_us rate p50_us p99_us")

# ------------------------------------------------------------------------------------------ servers


class ServerPlace(Workplace):
    """A workplace with a site to serve."""

    def __init__(self):
        super().__init__()
        self.site = self.path("site")
        os.mkdir(self.site)
        for name, body in (("index.html", PAGE), ("151.html", PAGE), ("16k.html", PAGE * 108 + b" " * 76)):
            with open(os.path.join(self.site, name), "wb") as file:
                file.write(body)

    def describe(self, options):
        return (
            f"server on core {self.server_core}, load on core {self.load_core};"
            f" {options.rounds} rounds of {options.seconds} s; estimate [95 % interval]"
        )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server: its process and its port."""

    def __init__(self, place, name, command, cores=None, patience=10):
        self.place, self.name, self.port = place, name, free_port()
        self.log = place.path(f"{name}-{self.port}.log")
        arguments = command(self.port)
        self.program = shutil.which(arguments[0])
        if self.program is None:
            raise Unable(f"{name}: {arguments[0]} is not there; {how_to_get(arguments[0])}")
        with open(self.log, "wb") as log:
            self.process = place.start(
                [self.program] + arguments[1:],
                cores or {place.server_core},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=place.folder,
            )
        deadline = time.monotonic() + patience
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    place.stop(self.process)
                    with open(self.log, encoding="utf-8", errors="replace") as log:
                        said = " / ".join(log.read().strip().splitlines()[-3:])
                    what = "ended at once" if ended else f"did not listen within {patience} s"
                    raise Unable(f"{name}: {' '.join(arguments)} {what}; it said: {said or 'nothing'}") from None
                time.sleep(0.02)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self):
        self.place.stop(self.process)


def own(name, *more, cores=1):
    """One of our own programs in bench/build, which take PORT CAPS."""
    return lambda port: [os.path.join(BUILD, name), str(port), str(cores), *more]


def c_twin(name, threads=1):
    return lambda port: [os.path.join(BUILD, name), "--port", str(port), "--threads", str(threads)]


def heddle(place, *more, cores=1):
    of_cores = [] if cores is None else ["--cores", str(cores)]
    return lambda port: [HEDDLE, "serve", place.site, "--listen", f"127.0.0.1:{port}", *of_cores, *more]


def peer(place, name, program, arguments, sendfile="on", more=None):
    """A peer, configured from the templates in bench/peers in a folder of its own."""

    def command(port):
        prefix = place.path(f"{name}-{port}")
        os.mkdir(prefix)
        values = {
            "PORT": port,
            "ROOT": place.site,
            "PREFIX": prefix,
            "FILES": place.files,
            "CONNECTIONS": min(CONNECTIONS, place.files - 64),
            "USER": pwd.getpwuid(os.getuid()).pw_name,
            "GROUP": grp.getgrgid(os.getgid()).gr_name,
            "SENDFILE": sendfile,
            "ACCESS": "off",
            "COMPRESSED": "",
            "WORKERS": 1,
            **(more or {}),
        }
        for file_name in os.listdir(os.path.join(BENCH, "peers")):
            if file_name.startswith(name + "."):
                with open(os.path.join(BENCH, "peers", file_name), encoding="utf-8") as file:
                    text = re.sub(r"@([A-Z]+)@", lambda match: str(values[match.group(1)]), file.read())
                with open(os.path.join(prefix, file_name), "w", encoding="utf-8") as file:
                    file.write(text)
        return [program] + [argument.replace("@PREFIX@", prefix) for argument in arguments]

    return command


def nginx(place, sendfile, **more):
    return peer(place, "nginx", "nginx", ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx.conf"], sendfile, more)


def mighttpd2(place):
    return peer(place, "mighttpd2", "mighty", ["@PREFIX@/mighttpd2.conf", "@PREFIX@/mighttpd2.route"])


def file_peers(place, sendfile):
    return {
        "nginx": nginx(place, sendfile),
        "h2o": peer(place, "h2o", "h2o", ["-c", "@PREFIX@/h2o.conf"]),
        "lighttpd": peer(place, "lighttpd", "lighttpd", ["-D", "-f", "@PREFIX@/lighttpd.conf"]),
        "mighttpd2": mighttpd2(place),
    }


def start_all(place, commands, kind=Server):
    """Starts what can be started; says what cannot, and why."""
    servers = {}
    for name, command in commands.items():
        try:
            servers[name] = kind(place, name, command)
        except Unable as reason:
            print(f"  without {reason}")
    return servers


# --------------------------------------------------------------------------------------------- load


def microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7}[unit]


def wrk(place, connections, path, threads=1, cores=None, headers=(), scheme="http", script=None, closed=False):
    """A load: given a server and how long, it answers with a sample. With `closed` it expects that the server closes connections."""
    program = shutil.which("wrk")
    if program is None:
        raise Unable("wrk is not there; run: make setup-bench")

    def load(server, seconds):
        url = f"{scheme}://127.0.0.1:{server.port}{path}"
        command = [program, f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency"]
        command += [word for header in headers for word in ("-H", header)]
        command += (["-s", script] if script else []) + [url]
        before = cpu_times(server.process.pid)
        process = place.start(
            command, cores or {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        output = process.communicate(timeout=seconds + 60)[0]
        cpu = cpu_between(before, cpu_times(server.process.pid))
        place.stop(process)
        requests = re.search(r"(\d+) requests in", output)
        latencies = {share: microseconds(value) for share, value in re.findall(r"(\d+)%\s+([\d.]+\w+)", output)}
        reads = r"\d+" if closed else "0"
        complaint = re.search(rf"Non-2xx.*|Socket errors: connect (?!0, read {reads}, write 0).*", output)
        if process.returncode != 0 or not requests or int(requests.group(1)) == 0 or complaint:
            raise Unable(f"{server.name}: wrk failed: {complaint.group(0) if complaint else output.strip()}")
        count = int(requests.group(1))
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
        return Sample(cpu / 1000 / count, rate, latencies["50"], latencies["99"])

    return load


def echoload(place, connections, message=64, websocket=False):
    load = echo_values(place, connections, message, websocket)

    def sample(server, seconds):
        cpu, values = load(server, seconds)
        return Sample(cpu / 1000 / values["round_trips"], values["rate"], values["p50_us"], values["p99_us"])

    return sample


def echo_values(place, connections, message=64, websocket=False):
    """A load that answers with the server's CPU time in nanoseconds, and with all that echoload has measured."""
    program = os.path.join(BUILD, "echoload")
    if not os.path.exists(program):
        raise Unable(f"echoload is not there; {how_to_get(program)}")

    def load(server, seconds):
        command = [program, "--port", str(server.port), "--connections", str(connections)]
        command += ["--bytes", str(message), "--milliseconds", str(int(1000 * seconds))]
        command += ["--websocket", "1"] if websocket else []
        process = place.start(
            command, {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            # Its first line comes when it begins to count, the second when it has counted.
            first = process.stdout.readline()
            before = cpu_times(server.process.pid)
            second = process.stdout.readline()
            cpu = cpu_between(before, cpu_times(server.process.pid))
            rest = process.stdout.read()
            process.wait(10)
        finally:
            place.stop(process)
        if first != "begin\n" or process.returncode != 0:
            raise Unable(f"{server.name}: echoload failed: {(first + second + rest).strip()}")
        words = second.split()
        return cpu, {name: float(value) for name, value in zip(words[::2], words[1::2])}

    return load


# -------------------------------------------------------------------------------------------- cases


def rounds_of(servers, load, options, warm_up=1):
    """Samples per server; in every round each server once, and the first changes."""
    for server in servers.values():
        load(server, warm_up)
    samples = {name: [] for name in servers}
    for name in in_turn(servers, options.rounds):
        samples[name].append(load(servers[name], options.seconds))
    return samples


def print_table(case, samples, results, what="request"):
    width = max(len(name) for name in samples)
    unit = f"CPU µs/{what}"
    print(f"  {'':{width}}  {unit:>26}  {what + 's/s':>12}  {'p50 µs':>9}  {'p99 µs':>9}")
    for name, rows in samples.items():
        cpu = spread([row.cpu_us for row in rows], ".2f")
        rate, p50, p99 = (
            statistics.median(getattr(row, field) for row in rows) for field in ("rate", "p50_us", "p99_us")
        )
        print(f"  {name:{width}}  {cpu:>26}  {rate:>12,.0f}  {p50:>9,.1f}  {p99:>9,.1f}")
        results.measured(case, name, **{field: [getattr(row, field) for row in rows] for field in Sample._fields})


def print_ratios(case, samples, results, field="cpu_us"):
    if "heddle" not in samples:
        print("  no ratios: heddle did not run")
        return
    for name in samples:
        if name != "heddle":
            mine, theirs = ([getattr(sample, field) for sample in samples[who]] for who in ("heddle", name))
            ratios(f"{case}/{name}", mine, theirs, results)


def contest(place, case, commands, load, options, results, what="request", check=None, kind=Server):
    servers = start_all(place, commands, kind)
    try:
        for name in list(servers):
            if check:
                status, body = servers[name].get(check[0])
                # Warp's page of 16 KB has other bytes, but as many.
                if status != 200 or len(body) != len(check[1]) or (name != "warp" and body != check[1]):
                    print(f"  without {name}: GET {check[0]} gave status {status} and {len(body)} bytes, not the page")
                    servers.pop(name).stop()
        if servers:
            samples = rounds_of(servers, load, options)
            print_table(case, samples, results, what)
            print_ratios(case, samples, results)
    finally:
        for server in servers.values():
            server.stop()


def fixed(connections):
    def run(place, options, results):
        commands = {
            "heddle": own("bench-fixed-heddle"),
            "c-twin": c_twin("fixed"),
            "stock": own("bench-fixed-stock"),
        }
        load = wrk(place, connections, "/")
        contest(place, f"fixed-{connections}", commands, load, options, results, check=("/", PAGE))

    return f"fixed-{connections}", f"a fixed response of 151 bytes, {connections} keep-alive connections", run


def echo(connections):
    def run(place, options, results):
        commands = {
            "heddle": own("bench-echo-heddle"),
            "c-twin": c_twin("echo"),
            "stock": own("bench-echo-stock"),
        }
        load = echoload(place, connections)
        contest(place, f"echo-{connections}", commands, load, options, results, what="round trip")

    plural = "s" if connections > 1 else ""
    return f"echo-{connections}", f"64 bytes there and back, {connections} connection{plural}", run


def timer():
    def run(place, _options, results):
        program = os.path.join(BUILD, "bench-timer")
        if not os.path.exists(program):
            raise Unable(f"bench-timer is not there; {how_to_get(program)}")
        process = place.start(
            [program], {place.server_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            for line in process.stdout:
                words = line.split()
                if len(words) >= 3 and words[0] == "RESULT":
                    unit = "ratio" if "/" in words[1] else words[1].rpartition("-")[2]
                    results.figure(words[1], [float(word) for word in words[2:]], unit)
                else:
                    print(f"  {line.rstrip()}")
            code = process.wait(60)
        finally:
            place.stop(process)
        if code != 0:
            raise Unable(f"bench-timer ended with exit code {code}")

    return "timer", "arming and re-arming deadlines", run


def static(label, path, warp_bytes, sendfile):
    def run(place, options, results):
        # Warp serves a page of the same size from memory, not the file.
        commands = {"heddle": heddle(place), **file_peers(place, sendfile), "warp": own("bench-warp", *warp_bytes)}
        with open(place.site + path, "rb") as file:
            body = file.read()
        load = wrk(place, 64, path)
        contest(place, f"static-{label}", commands, load, options, results, check=(path, body))

    return f"static-{label}", f"a file of {label}, 64 keep-alive connections (warp: as many bytes from memory)", run


def access_log():
    def run(place, options, results):
        log = place.path("access.log")
        commands = {"heddle": heddle(place, "--access-log", log), "off": heddle(place)}
        contest(
            place, "access-log", commands, wrk(place, 64, "/151.html"), options, results, check=("/151.html", PAGE)
        )
        if os.path.exists(log):
            with open(log, "rb") as file:
                lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
            print(f"  {lines:,} lines were logged ('heddle' logs, 'off' is heddle without a log)")

    return "access-log", "the access log on and off, a file of 151B, 64 connections", run


def two_cores():
    def run(place, options, results):
        cores = place.cores
        two = {cores[0], cores[1]}
        load_cores = set(cores[2:4]) if len(cores) >= 4 else two
        servers = {}
        try:
            servers["heddle"] = Server(place, "heddle", heddle(place, cores=2), cores=two)
            servers["one-core"] = Server(place, "one-core", heddle(place))
            loads = {
                "heddle": wrk(place, 128, "/151.html", 2, load_cores),
                "one-core": wrk(place, 128, "/151.html", 2, load_cores if len(cores) >= 4 else {cores[1]}),
            }
            samples = rounds_of(servers, lambda server, seconds: loads[server.name](server, seconds), options)
        finally:
            for server in servers.values():
                server.stop()
        print_table("two-cores", samples, results)
        print_ratios("two-cores", samples, results, field="rate")
        busy = [row.cpu_us * row.rate / 1e6 for row in samples["heddle"]]
        print(f"  on two cores the server was given {spread(busy, '.2f')} cores of CPU")
        if len(cores) < 4:
            print(f"  limited by the load generator: it has to share the {len(cores)} cores with the server")
        pairs = zip(samples["heddle"], samples["one-core"])
        capacity = [2 * theirs.cpu_us / mine.cpu_us for mine, theirs in pairs]
        print(f"  capacity, by CPU per request: {spread(capacity, '.2f', 'ratio')} times one core")
        results.ratio("two-cores-capacity/one-core", capacity)

    return "two-cores", "two cores against one, a file of 151B, 128 connections", run


def accept():
    def run(place, options, results):
        both = set(place.cores[:2])
        servers = {}
        try:
            for name, more in (("heddle", []), ("one-acceptor", ["--one-acceptor"])):
                servers[name] = Server(place, name, heddle(place, *more, cores=2), cores=both)
            closing = wrk(place, 64, "/151.html", 2, both, ["Connection: close"])
            kept = wrk(place, 64, "/151.html", 2, both)
            for what, load in (("closing", closing), ("kept", kept)):
                print(f"  {what} connections")
                samples = rounds_of(servers, load, options)
                print_table(f"accept-{what}", samples, results)
                print_ratios(f"accept-{what}", samples, results)
        finally:
            for server in servers.values():
                server.stop()

    return "accept", "SO_REUSEPORT against one acceptor on two cores, a connection per request, and kept ones", run


def idle():
    def run(place, _options, results):
        program = os.path.join(BUILD, "idle")
        if not os.path.exists(program):
            raise Unable(f"idle is not there; {how_to_get(program)}")
        count = min(15000, (place.files - 1000) // 1000 * 1000)
        if count < 15000:
            print(f"  only {count:,} connections: {place.files:,} descriptors are allowed (ulimit -Hn)")
        commands = {"heddle": heddle(place), "nginx": nginx(place, "off"), "warp": own("bench-warp")}
        for name, command in commands.items():
            try:
                server = Server(place, name, command)
            except Unable as reason:
                print(f"  without {reason}")
                continue
            try:
                points = memory_of(place, server, [program], count)
            finally:
                server.stop()
            slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
            first, last = points[0], points[-1]
            print(
                f"  {name:8}  {slope:>8,.0f} bytes a connection"
                f"  ({first[1] / 1e6:.1f} MB at {first[0]:,}, {last[1] / 1e6:.1f} MB at {last[0]:,})"
            )
            results.measured("idle-memory", name, bytes=[slope])
            if name == "heddle":
                results.figure("idle-connection-bytes", slope, "bytes", ".0f")

    return "idle-memory", "memory of idle keep-alive connections (process memory; the kernel's is not in it)", run


def memory_of(place, server, client, count, reading=None):
    """Memory (or another reading of the server's process) after every thousand connections that have each made a request."""
    reading = reading or settled_memory
    points = []
    process = place.start(
        client + ["--port", str(server.port), "--count", str(count), "--step", "1000"],
        {place.load_core},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stdout:
            points.append((int(line.split()[1]), reading(server.process.pid)))
            if points[-1][0] == count:
                break
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdin.close()
        process.wait(30)
    finally:
        place.stop(process)
    if not points or points[-1][0] != count:
        raise Unable(f"{server.name}: opened {points[-1][0] if points else 0} of {count} connections")
    return points


def settled_memory(pid):
    """The memory once two readings in a row agree."""
    last = -1
    for _ in range(50):
        now = memory_bytes(pid)
        if now == last:
            break
        last = now
        time.sleep(0.05)
    return last


class Strace:
    """Counts the system calls of a server for as long as the block runs."""

    def __init__(self, place, server):
        self.place, self.server, self.calls = place, server, {}
        self.output = place.path("strace.txt")
        self.program = shutil.which("strace")
        if self.program is None:
            raise Unable("strace is not there; run: make setup")

    def __enter__(self):
        command = [self.program, "-c", "-f", "-o", self.output]
        command += [word for pid in processes(self.server.process.pid) for word in ("-p", str(pid))]
        self.process = self.place.start(command, {self.place.load_core}, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "attached" not in line:
            self.place.stop(self.process)
            raise Unable(f"strace cannot attach to {self.server.name}: {line.strip()}")
        return self

    def __exit__(self, *_):
        # An interrupt makes strace detach and write what it has counted.
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        self.place.stop(self.process)
        with open(self.output, encoding="utf-8") as file:
            for line in file:
                # % time, seconds, usecs/call, calls, errors (if any), name
                row = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:(\d+)\s+)?(\w+)\s*$", line)
                if row and row.group(3) != "total":
                    self.calls[row.group(3)] = (int(row.group(1)), int(row.group(2) or 0))


def syscalls():
    def run(place, _options, results):
        server = Server(place, "heddle", heddle(place))
        try:
            calls = saturated_calls(place, server, 64)
            received = sum(
                number - errors for name, (number, errors) in calls.items() if name in ("recvfrom", "recvmsg", "readv")
            )
            # wrk sends each request in one piece and waits for its answer.
            requests = received or sum(n - e for name, (n, e) in calls.items() if name == "read")
            total = sum(number for number, _ in calls.values())
            if requests == 0:
                raise Unable("strace saw no request; is the load running?")
            for name, (number, errors) in sorted(calls.items(), key=lambda item: -item[1][0]):
                print(f"  {name:20} {number:>10,} calls {number / requests:>8.3f} a request {errors:>8,} errors")
            print(f"  {'total':20} {total:>10,} calls {total / requests:>8.3f} a request, {requests:,} requests")
            results.figure("syscalls-per-request", total / requests, "calls")
            results.figure("epoll_ctl-after-accept", calls.get("epoll_ctl", (0, 0))[0], "calls", "d")
        finally:
            server.stop()

    return "syscalls", "system calls of a saturated server once its 64 connections are open (strace -c -f)", run


def saturated_calls(place, server, connections):
    command = [shutil.which("wrk") or "wrk", "-t1", f"-c{connections}", "-d8s"]
    command.append(f"http://127.0.0.1:{server.port}/151.html")
    load = place.start(command, {place.load_core}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        with Strace(place, server) as strace:
            time.sleep(3)
            if load.poll() is not None:
                raise Unable("wrk ended early")
        return strace.calls
    finally:
        place.stop(load)


def calls_at_rest(place, server):
    """The system calls of the last IDLE_SECONDS of a longer look: attaching wakes the server."""
    output = place.path("strace-rest.txt")
    command = [shutil.which("strace") or "strace", "-f", "-ttt", "-o", output]
    command += [word for pid in processes(server.process.pid) for word in ("-p", str(pid))]
    process = place.start(command, {place.load_core}, stderr=subprocess.PIPE, text=True)
    try:
        if "attached" not in process.stderr.readline():
            raise Unable(f"strace cannot attach to {server.name}")
        time.sleep(3)
        began = time.time()
        time.sleep(IDLE_SECONDS)
        ended = time.time()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        place.stop(process)
    with open(output, encoding="utf-8") as file:
        rows = (re.match(r"\d+\s+(\d+\.\d+) (?:<\.\.\. )?(\w+)", line) for line in file)
        return [row.group(2) for row in rows if row and began <= float(row.group(1)) <= ended]


def idle_calls():
    def run(place, _options, results):
        server = Server(place, "heddle", heddle(place))
        try:
            server.get("/151.html")
            held = socket.create_connection(("127.0.0.1", server.port))
            with held:
                # A new connection that stays silent is closed after 10 s; this one is kept.
                held.sendall(b"GET /151.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
                held.recv(65536)
                calls = calls_at_rest(place, server)
            for name, number in collections.Counter(calls).items():
                print(f"  {name:20} {number:>10,} calls")
            total = len(calls)
            print(f"  {total} system calls in {IDLE_SECONDS} s with one idle connection")
            results.figure(f"idle-syscalls-{IDLE_SECONDS}s", total, "calls", "d")
        finally:
            server.stop()

    return "idle-syscalls", f"system calls of an idle server in {IDLE_SECONDS} s", run


CASES = {
    "io": [fixed(64), fixed(400), echo(1), echo(64), timer()],
    "serve": [
        static("151B", "/151.html", [], "off"),
        static("16KB", "/16k.html", ["16384"], "on"),
        access_log(),
        two_cores(),
        accept(),
        idle(),
        syscalls(),
        idle_calls(),
    ],
}
