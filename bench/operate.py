"""What operating the web server costs: the cases of `run.py operate`.

As in servers.py, except where two cores are measured, the server has one core and the load another, and what is measured is the
CPU of the server's processes for each request.
"""
import contextlib
import gzip
import http.client
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

from harness import HEDDLE, Unable, found, processes, ratios, spread
import servers
from servers import PAGE, Server, ServerPlace, c_twin, heddle, peer, print_ratios, print_table, rounds_of, settled_memory, start_all, wrk
from fronts import built

IDLE_CONNECTIONS = 15_000
ATTACKERS = 4_000
FEW_DESCRIPTORS = 1_024
LIVES = 10
BIG = 64 << 20


class OperatePlace(ServerPlace):
    """A workplace with a text that compresses as prose does, and its compressed sibling."""

    def __init__(self):
        super().__init__()
        words, chance = [], random.Random(1)
        for _ in range(2000):
            words.append("".join(chance.choice("etaoinshrdlucmfw") for _ in range(chance.randint(2, 9))))
        text = " ".join(chance.choice(words) for _ in range(8000)).encode()
        self.text, self.packed = text, gzip.compress(text, 9, mtime=0)
        for name, body in (("text.html", self.text), ("text.html.gz", self.packed)):
            with open(os.path.join(self.site, name), "wb") as file:
                file.write(body)
        with open(os.path.join(self.site, "big.bin"), "wb") as file:
            file.truncate(BIG)
        self.configuration = self.path("sites.yaml")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(configuration(self.site))


def configuration(site):
    """Five hosts, of which one has 20 routes; requests for the other names come to none of the measured paths' routes either."""
    hosts = ["unknown-host: 421", "hosts:"]
    for host in range(5):
        hosts += [f'  - names: ["www.host{host}.example", "*.host{host}.example"]', f'    root: "{site}"']
        if host == 0:
            hosts += ["    routes:"] + [f'      "/application/{i}/api": {{proxy: "http://127.0.0.1:{9000 + i}"}}' for i in range(20)]
    return "\n".join(hosts) + "\n"


def configured(place, *more):
    """Heddle as the configuration says, on one core."""
    return lambda port: [HEDDLE, "serve", "--config", place.configuration, "--listen", f"127.0.0.1:{port}", "--cores", "1", *more]


def nginx(place, **more):
    return servers.nginx(place, "off", **more)


# ------------------------------------------------------------------------------- threads and processes


def processes_case():
    def run(place, options, results):
        cores = place.cores
        two = set(cores[:2])
        apart = len(cores) >= 4
        load_cores = set(cores[2:4]) if apart else two
        servers = {}
        try:
            servers["heddle"] = Server(place, "heddle", heddle(place, cores=2), cores=two)
            servers["processes"] = Server(place, "processes", heddle(place, "--processes", "2", cores=None), cores=two)
            servers["one-core"] = Server(place, "one-core", heddle(place))
            on_two = wrk(place, 128, "/151.html", 2, load_cores)
            on_one = wrk(place, 128, "/151.html", 2, load_cores if apart else {cores[1]})
            load = lambda server, seconds: (on_one if server.name == "one-core" else on_two)(server, seconds)
            samples = rounds_of(servers, load, options)
        finally:
            for server in servers.values():
                server.stop()
        print_table("processes", samples, results)
        print_ratios("processes", {name: samples[name] for name in ("heddle", "processes")}, results)
        print_ratios("processes-rate", samples, results, field="rate")
        if not apart:
            print(f"  limited by the load generator: it has to share the {len(cores)} cores with the server")
        for name in ("heddle", "processes"):
            capacity = [2 * one.cpu_us / both.cpu_us for one, both in zip(samples["one-core"], samples[name])]
            print(f"  {name}: capacity of two cores, by CPU per request: {spread(capacity, '.2f', 'ratio')} times one core")
            results.ratio(f"processes-capacity-{'threads' if name == 'heddle' else 'processes'}/one-core", capacity)

    return "processes", "two threads of one process (heddle) against two processes, a file of 151B, 128 connections", run


# ------------------------------------------------------------------------------------------------- logs


def logs():
    def run(place, options, results):
        log = lambda who: place.path(f"{who}.log")
        commands = {
            "heddle": heddle(place, "--access-log", log("heddle")),
            "off": heddle(place),
            "nginx": nginx(place, ACCESS=f"{log('nginx')} combined"),
            "nginx-buffered": nginx(place, ACCESS=f"{log('nginx-buffered')} combined buffer=64k flush=200ms"),
            "nginx-off": nginx(place),
        }
        servers = start_all(place, commands)
        try:
            samples = rounds_of(servers, wrk(place, 64, "/151.html"), options)
        finally:
            for server in servers.values():
                server.stop()
        print_table("log-combined", samples, results)
        print_ratios("log-combined", samples, results)
        for who in ("nginx", "nginx-buffered"):
            if who in samples and "nginx-off" in samples:
                ratios(f"log-combined-{who}/off", *([row.cpu_us for row in samples[name]] for name in (who, "nginx-off")), results)

    return "log-combined", "the access log in the combined format on and off, nginx's beside it, a file of 151B, 64 connections", run


# ----------------------------------------------------------------------------------------------- routes


def routes(connections):
    name = f"routes-20-{connections}"

    def run(place, options, results):
        host = "www.host0.example"
        commands = {
            "heddle": configured(place),
            "without": heddle(place),
            "nginx": nginx(place),
            "h2o": peer(place, "h2o", "h2o", ["-c", "@PREFIX@/h2o.conf"]),
            "c-twin": c_twin("fixed"),
        }
        servers = start_all(place, commands)
        try:
            for who in list(servers):
                # The C program knows one path, and answers every one with the page.
                connection = http.client.HTTPConnection("127.0.0.1", servers[who].port, timeout=5)
                connection.request("GET", "/151.html", headers={"Host": host})
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                if (answer.status, body) != (200, PAGE):
                    print(f"  without {who}: it gave status {answer.status} and {len(body)} bytes, not the page")
                    servers.pop(who).stop()
            samples = rounds_of(servers, wrk(place, connections, "/151.html", headers=[f"Host: {host}"]), options)
            print_table(name, samples, results)
            print_ratios(name, samples, results)
        finally:
            for server in servers.values():
                server.stop()

    return name, f"a file of 151B of one of 5 hosts beside 20 routes, by a configuration; others serve one directory; {connections} connections", run


# ----------------------------------------------------------------------------------- compressed siblings


def gzip_static():
    def run(place, options, results):
        commands = {"heddle": heddle(place, "--compression", "static"), "nginx": nginx(place, COMPRESSED="gzip_static on; gzip_vary on;")}
        servers = start_all(place, commands)
        try:
            for name in list(servers):
                connection = http.client.HTTPConnection("127.0.0.1", servers[name].port, timeout=5)
                connection.request("GET", "/text.html", headers={"Accept-Encoding": "gzip"})
                answer = connection.getresponse()
                body, coding = answer.read(), answer.getheader("Content-Encoding")
                connection.close()
                if coding != "gzip" or body != place.packed:
                    print(f"  without {name}: it gave {len(body)} bytes in the coding {coding}, not the sibling")
                    servers.pop(name).stop()
            samples = rounds_of(servers, wrk(place, 64, "/text.html", headers=["Accept-Encoding: gzip"]), options)
            print(f"  {len(place.text):,} bytes, {len(place.packed):,} compressed")
            print_table("gzip-static", samples, results)
            print_ratios("gzip-static", samples, results)
        finally:
            for server in servers.values():
                server.stop()

    return "gzip-static", "a text's compressed sibling, against nginx's gzip_static, 64 connections", run


# ----------------------------------------------------------------------------------------- idle clients


def idle_beside():
    def run(place, options, results):
        program = built("idle")
        count = min(IDLE_CONNECTIONS, (place.files - 1000) // 1000 * 1000)
        if count < IDLE_CONNECTIONS:
            print(f"  only {count:,} connections: {place.files:,} descriptors are allowed (ulimit -Hn)")
        load = wrk(place, 8, "/151.html")
        servers = start_all(place, {"heddle": heddle(place, "--idle", "600"), "nginx": nginx(place)})
        try:
            for who, server in servers.items():
                load(server, 1)
                alone = [load(server, options.seconds) for _ in range(options.rounds)]
                before = settled_memory(server.process.pid)
                process = place.start(
                    [program, "--port", str(server.port), "--count", str(count), "--step", str(count)],
                    {place.load_core}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
                try:
                    if process.stdout.readline() != f"open {count}\n":
                        raise Unable(f"{who}: the {count:,} connections were not opened")
                    each = (settled_memory(server.process.pid) - before) / count
                    beside = [load(server, options.seconds) for _ in range(options.rounds)]
                    process.stdin.close()
                    process.wait(60)
                finally:
                    place.stop(process)
                slow, quick = [row.p99_us for row in beside], [row.p99_us for row in alone]
                print(f"  {who:8} {each:>7,.0f} bytes a connection; p99 {spread(quick, '.0f'):>24} µs alone {spread(slow, '.0f'):>24} µs beside")
                results.measured("idle-beside", who, bytes=[each], alone_us=quick, beside_us=slow)
                ratios(f"idle-beside-p99-{who}/alone", slow, quick, results)
                if who == "heddle":
                    results.figure("idle-beside-bytes", each, "bytes", ".0f")
        finally:
            for server in servers.values():
                server.stop()

    return "idle-beside", f"memory of {IDLE_CONNECTIONS:,} idle connections, and the slowest hundredth of others' requests beside them", run


# ------------------------------------------------------------------------------------------- attackers


def attack(number, what, title, *, few=False):
    """The slowest hundredth of honest requests beside connections that hold on to what they get, against without them."""
    name = f"attack-{what}"

    def run(place, options, results):
        # They share a core with the load, whose requests must wait for the server, not for them.
        attackers = ["chrt", "--idle", "0", built("attack"), "--kind", str(number)]
        count = min(ATTACKERS, (place.files - 1000) // 1000 * 1000)
        if count < ATTACKERS:
            print(f"  only {count:,} connections: {place.files:,} descriptors are allowed (ulimit -Hn)")
        # With few descriptors, it is new connections that may be shut out.
        load = wrk(place, 8, "/151.html", headers=["Connection: close"], closed=True) if few else wrk(place, 8, "/151.html")
        for who, command in {"heddle": scarce(heddle(place)) if few else heddle(place), "nginx": nginx(place, **(SCARCE_NGINX if few else {}))}.items():
            try:
                quick, slow, each, closed = besieged(place, options, Server(place, who, command), load, attackers, count, few)
            except Unable as reason:
                # Of a peer, that is a result, too.
                if who == "heddle":
                    raise
                print(f"  without {reason}")
                continue
            print(f"  {who:8} {each:>7,.0f} bytes an attacker, {closed:,} closed; p99 {spread(quick, '.0f'):>24} µs alone {spread(slow, '.0f'):>24} µs beside")
            results.measured(name, who, bytes=[each], alone_us=quick, beside_us=slow)
            ratios(f"{name}-p99-{who}/alone", slow, quick, results)
            if who == "heddle":
                results.figure(f"{name}-bytes", each, "bytes", ".0f")

    return name, title, run


def besieged(place, options, server, load, attackers, count, few):
    """The slowest hundredth without and with attackers, memory for each of them, and how many the server has closed."""
    try:
        load(server, 1)
        quick = [load(server, options.seconds).p99_us for _ in range(options.rounds)]
        before = settled_memory(server.process.pid)
        process = place.start(
            [*attackers, "--port", str(server.port), "--count", str(count)],
            {place.load_core}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        try:
            opened = int(process.stdout.readline().split()[1])
            if opened < count and not few:
                raise Unable(f"{server.name}: only {opened:,} of {count:,} connections were opened")
            each = (settled_memory(server.process.pid) - before) / (min(count, FEW_DESCRIPTORS) if few else count)
            slow = [load(server, options.seconds).p99_us for _ in range(options.rounds)]
            process.stdin.close()
            return quick, slow, each, int(process.stdout.readline().split()[1])
        finally:
            place.stop(process)
    finally:
        server.stop()


# As many connections as nginx itself takes for the descriptors: it wants some for files.
SCARCE_NGINX = {"FILES": FEW_DESCRIPTORS, "CONNECTIONS": FEW_DESCRIPTORS - 64}


def scarce(command):
    return lambda port: ["/bin/sh", "-c", f'ulimit -n {FEW_DESCRIPTORS}; exec "$@"', "sh", *command(port)]


# ------------------------------------------------------------------------------------------------ SIGKILL

LINE = re.compile(rb'127\.0\.0\.1 - - \[[^]]+\] "GET /151\.html\?(\d+)-(\d+) HTTP/1\.1" 200 151 "-" "-"')
A_LINE = b'127.0.0.1 - - [21/Nov/2026:20:14:07 +0100] "GET /151.html?0-100000 HTTP/1.1" 200 151 "-" "-"\n'


def log_kill():
    def run(place, options, results):
        program = shutil.which("wrk")
        if program is None:
            raise Unable("wrk is not there; run: make setup-bench")
        wanted = options.lines // LIVES
        log = place.path("killed.log")
        answered = []
        for life in range(LIVES):
            server = Server(place, "heddle", heddle(place, "--access-log", log))
            before = os.path.getsize(log)
            script = place.path("numbered.lua")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"local n = 0\nrequest = function() n = n + 1; return wrk.format('GET', '/151.html?{life}-' .. n) end\n")
            process = place.start(
                [program, "-t1", "-c64", "-d3600s", "-s", script, f"http://127.0.0.1:{server.port}/"],
                {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            try:
                deadline = time.monotonic() + 600
                while os.path.getsize(log) - before < wanted * len(A_LINE):
                    if server.process.poll() is not None or time.monotonic() > deadline:
                        raise Unable(f"the log did not grow to {wanted:,} lines")
                    time.sleep(0.001)
                server.process.kill()
                server.process.wait()
                # It says how many answers it has got.
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=60)[0]
            finally:
                place.stop(process)
                server.stop()
            count = re.search(r"(\d+) requests in", said)
            if not count:
                raise Unable(f"wrk failed: {said.strip()}")
            answered.append(int(count.group(1)))
        # What the last life left is written when the next one starts.
        Server(place, "heddle", heddle(place, "--access-log", log)).stop()
        torn, twice, whole, seen = 0, 0, 0, [bytearray() for _ in range(LIVES)]
        with open(log, "rb") as file:
            for line in file:
                match = LINE.fullmatch(line.rstrip(b"\n")) if line.endswith(b"\n") else None
                if not match:
                    torn += 1
                    continue
                life, number = int(match.group(1)), int(match.group(2))
                marks = seen[life]
                if number >= len(marks):
                    marks.extend(bytes(number + 100_000 - len(marks)))
                twice += marks[number]
                marks[number] = 1
                whole += 1
        # A number that is missing although 64 greater ones were written is that of a line that was lost before the end. wrk tries the
        # script once before it begins.
        early = sum(marks[2 : max(1, marks.rfind(1) - 64)].count(0) for marks in seen)
        lost = [max(0, count - sum(marks)) for count, marks in zip(answered, seen)]
        print(f"  {whole:,} whole lines of {LIVES} lives, {torn} torn, {twice} twice, {early} lost before the last ones; lost of those at the end: {spread(lost, ',.0f')}")
        results.measured("log-kill", "heddle", lines=[whole], torn=[torn], early=[early], lost=lost)
        for what, number in (("lines", whole), ("torn", torn), ("twice", twice), ("early", early)):
            results.figure(f"log-kill-{what}", number, "lines", "d")
        results.figure("log-kill-lost-at-end", [float(count) for count in lost], "lines", ".0f")

    return "log-kill", f"lines of the access log over {LIVES} SIGKILLs under load: torn, doubled, lost (after the next start, which writes what the killed process left)", run


# ------------------------------------------------------------------------------------------------ reload


class Posting(threading.Thread):
    """Requests with a body, one after the other, on a connection that is kept as long as the server says. A request that is not
    answered has failed; it is not asked again, as no client may repeat it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.done, self.failed, self.over = port, 0, [], threading.Event()
        self.start()

    def run(self):
        connection = None
        while not self.over.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("POST", "/151.html", b"x" * 100, {"Host": "www.host0.example"})
                answer = connection.getresponse()
                answer.read()
                # Both answer that a file takes no POST.
                if answer.status != 405:
                    raise OSError(f"status {answer.status}")
                self.done += 1
                if answer.getheader("Connection", "").lower() == "close":
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as problem:
                self.failed.append(repr(problem))
                connection.close()
                connection = None


def read_number(path):
    with contextlib.suppress(OSError, ValueError):
        with open(path, encoding="ascii") as file:
            return int(file.read())
    return 0


class Upgrading:
    """A server that replaces itself: which process it is now, and how it is told to reload and to be replaced."""

    def __init__(self, server, pid_file):
        self.server, self.pid_file = server, pid_file
        self.pids = {server.process.pid}

    def pid(self):
        return read_number(self.pid_file)

    def wait_for(self, what, condition):
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                raise Unable(f"{self.server.name}: {what} did not happen")
            time.sleep(0.001)

    def stop(self):
        """The successors are not our children."""
        pid = self.pid()
        if pid and pid != self.server.process.pid:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
            self.wait_for("the end of the last process", lambda: not os.path.exists(f"/proc/{pid}"))
        self.server.stop()


class UpgradingHeddle(Upgrading):
    def reload(self):
        before = self.loaded()
        os.kill(self.pid(), signal.SIGHUP)
        self.wait_for("a reload", lambda: self.loaded() > before)

    def loaded(self):
        with open(self.server.log, "rb") as file:
            return file.read().count(b"the configuration has been loaded again")

    def upgrade(self):
        old = self.pid()
        os.kill(old, signal.SIGUSR2)
        self.wait_for("an upgrade", lambda: self.pid() not in (0, old))
        self.wait_for("the end of the old process", lambda: gone(old))


class UpgradingNginx(Upgrading):
    def reload(self):
        before = set(processes(self.pid()))
        os.kill(self.pid(), signal.SIGHUP)
        self.wait_for("a reload", lambda: set(processes(self.pid())) - before)

    def upgrade(self):
        old = self.pid()
        os.kill(old, signal.SIGUSR2)
        self.wait_for("an upgrade", lambda: self.pid() not in (0, old) and len(processes(self.pid())) > 1)
        os.kill(old, signal.SIGQUIT)
        self.wait_for("the end of the old process", lambda: gone(old))


def detached(command, pid_file):
    """nginx takes an upgrade only after its first parent has ended, as that of a daemon has. Another process stands in its place here."""
    script = '( "$@" & n=0; while [ ! -s "$0" ] && [ $n -lt 500 ]; do sleep 0.02; n=$((n + 1)); done ); exec sleep infinity'

    def started(port):
        words = command(port)
        return ["/bin/sh", "-c", script, pid_file(port), found(words[0]), *words[1:]]

    return started


def gone(pid):
    """Whether a process has ended; our own child is one that nobody has collected yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def reload_under_load():
    def run(place, options, results):
        pid_file = place.path("heddle.pid")
        nginx_pid = lambda port: os.path.join(place.path(f"nginx-{port}"), "nginx.pid")
        upgrades = max(1, options.reloads // 100)
        contenders = {
            "heddle": (configured(place, "--pid-file", pid_file), UpgradingHeddle, lambda server: pid_file),
            "nginx": (detached(nginx(place), nginx_pid), UpgradingNginx, lambda server: nginx_pid(server.port)),
        }
        for who, (command, kind, pids) in contenders.items():
            try:
                server = Server(place, who, command)
            except Unable as reason:
                print(f"  without {reason}")
                continue
            upgrading, clients = kind(server, pids(server)), []
            try:
                upgrading.wait_for("its process id", upgrading.pid)
                clients += [Posting(server.port) for _ in range(8)]
                for what, times, act in (("reload", options.reloads, upgrading.reload), ("upgrade", upgrades, upgrading.upgrade)):
                    began, before = time.monotonic(), (answers(clients), len(failures(clients)))
                    for _ in range(times):
                        act()
                        # The next one comes in the middle of other requests.
                        soon = answers(clients) + 20
                        upgrading.wait_for("answers after it", lambda: answers(clients) >= soon)
                    done, failed = answers(clients) - before[0], failures(clients)[before[1] :]
                    print(f"  {who:8} {times} {what}s in {time.monotonic() - began:.1f} s, {done:,} requests, {len(failed)} failed {failed[:1] or ''}")
                    results.measured(what, who, failures=[len(failed)], requests=[done])
                    if who == "heddle":
                        results.figure(f"{what}-failures", len(failed), "failures", "d")
            finally:
                for client in clients:
                    client.over.set()
                for client in clients:
                    client.join(15)
                upgrading.stop()

    return "reload", "SIGHUPs (--reloads, 1,000) and a hundredth as many upgrades of the program under requests with a body: how many fail", run


def answers(clients):
    return sum(client.done for client in clients)


def failures(clients):
    return [why for client in clients for why in client.failed]


CASES = [
    processes_case(),
    logs(),
    log_kill(),
    routes(64),
    routes(400),
    gzip_static(),
    idle_beside(),
    attack(0, "head", f"{ATTACKERS:,} clients that send a head byte by byte"),
    attack(1, "body", f"{ATTACKERS:,} clients that send a body byte by byte"),
    attack(2, "reader", f"{ATTACKERS:,} clients that take a file of {BIG >> 20} MB byte by byte"),
    attack(3, "descriptors", f"{ATTACKERS:,} silent clients of a server with {FEW_DESCRIPTORS:,} descriptors, against new connections", few=True),
    reload_under_load(),
]
