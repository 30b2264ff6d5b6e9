"""What operating the web server costs: the cases of `run.py operate`.

As in servers.py, except where two cores are measured, the server has one core and the load another, and what is measured is the
CPU of the server's processes for each request.
"""
import gzip
import http.client
import os
import random
import signal
import statistics
import subprocess
import threading
import time

from harness import Unable, cpu_between, cpu_times, ratios, spread
from servers import PAGE, Server, ServerPlace, contest, heddle, peer, print_ratios, print_table, rounds_of, settled_memory, start_all, wrk
from fronts import built

IDLE_CONNECTIONS = 15_000
RELOADS = 200


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


def nginx(place, **more):
    return peer(place, "nginx", "nginx", ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx.conf"], "off", more)


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


def routes():
    def run(place, options, results):
        more = [word for i in range(20) for word in ("--proxy", f"/application/{i}/api=http://127.0.0.1:{9000 + i}")]
        commands = {"heddle": heddle(place, *more), "without": heddle(place), "nginx": nginx(place)}
        contest(place, "routes-20", commands, wrk(place, 64, "/151.html"), options, results, check=("/151.html", PAGE))

    return "routes-20", "a file of 151B beside 20 routes to other servers, against without and nginx without, 64 connections", run


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
                connection.request("POST", "/151.html", b"x" * 100)
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


def reload_under_load():
    def run(place, _options, results):
        for who, command in {"heddle": heddle(place), "nginx": nginx(place)}.items():
            try:
                server = Server(place, who, command)
            except Unable as reason:
                print(f"  without {reason}")
                continue
            try:
                clients = [Posting(server.port) for _ in range(8)]
                began = time.monotonic()
                for number in range(RELOADS):
                    before = sum(client.done for client in clients)
                    server.process.send_signal(signal.SIGHUP)
                    # The next one comes in the middle of other requests.
                    deadline = time.monotonic() + 10
                    while sum(client.done for client in clients) < before + 20:
                        if server.process.poll() is not None or time.monotonic() > deadline:
                            raise Unable(f"{who} answers no more after {number + 1} reloads")
                        time.sleep(0.001)
                took = time.monotonic() - began
            finally:
                for client in clients:
                    client.over.set()
                for client in clients:
                    client.join(15)
                server.stop()
            done, failed = sum(client.done for client in clients), [why for client in clients for why in client.failed]
            print(f"  {who:8} {RELOADS} reloads in {took:.1f} s, {done:,} requests, {len(failed)} failed {failed[:1] or ''}")
            results.measured("reload", who, failures=[len(failed)], requests=[done])
            if who == "heddle":
                results.figure("reload-failures", len(failed), "failures", "d")

    return "reload", f"{RELOADS} SIGHUPs under requests with a body: how many fail", run


CASES = [processes_case(), logs(), routes(), gzip_static(), idle_beside(), reload_under_load()]
