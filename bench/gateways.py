"""What is behind the server: the reverse proxy and programs; the cases of `run.py gateways`.

As in servers.py the measured server has one core. The load has another, and so have the upstreams, which are the same for all
contenders. What is measured is the CPU of the server's processes for each request.
"""
import glob
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from harness import BUILD, Unable, cpu_between, cpu_times, how_to_get, memory_bytes, ratios, spread
from servers import PAGE, Sample, Server, ServerPlace, contest, heddle, peer, print_ratios, print_table, rounds_of, settled_memory, start_all, wrk

BIG = 1 << 30
PIECE = 1 << 18
TUNNELS = 10_000


class GatewayPlace(ServerPlace):
    """A workplace with a site that the upstreams serve."""

    def __init__(self):
        super().__init__()
        with open(os.path.join(self.site, "1k.html"), "wb") as file:
            file.write((PAGE * 7)[:1024])
        with open(os.path.join(self.site, "big.bin"), "wb") as file:
            file.truncate(BIG)
        self.empty = self.path("empty")
        os.mkdir(self.empty)


# -------------------------------------------------------------------------------------------- proxy


def behind(place):
    """The upstream of all proxies, on the load's core."""
    arguments = ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx-behind.conf"]
    return Server(place, "behind", peer(place, "nginx-behind", "nginx", arguments), {place.load_core})


def proxies(place, upstream, **more):
    """The contenders, before a port."""
    arguments = ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx-proxy.conf"]

    def ours(port):
        command = heddle(place, "--proxy", f"/=http://127.0.0.1:{upstream}")(port)
        # Nothing of the site is served by itself.
        return [place.empty if word == place.site else word for word in command]

    return {"heddle": ours, "nginx": peer(place, "nginx-proxy", "nginx", arguments, more={"UPSTREAM": upstream, **more})}


def proxy_small():
    def run(place, options, results):
        upstream = behind(place)
        try:
            page = (PAGE * 7)[:1024]
            contest(place, "proxy-1KB", proxies(place, upstream.port), wrk(place, 64, "/1k.html"), options, results, check=("/1k.html", page))
        finally:
            upstream.stop()

    return "proxy-1KB", "a response of 1 KB through the proxy, 64 connections, upstream connections kept", run


def proxy_calm():
    def run(place, options, results):
        upstream = behind(place)
        servers = start_all(place, proxies(place, upstream.port))
        try:
            samples = rounds_of(servers, wrk(place, 8, "/1k.html"), options)
            for who, rows in samples.items():
                print(f"  {who:8} p99 {spread([row.p99_us for row in rows], '.0f'):>30} µs")
                results.measured("proxy-p99", who, p99_us=[row.p99_us for row in rows])
            print_ratios("proxy-p99", samples, results, field="p99_us")
        finally:
            for server in servers.values():
                server.stop()
            upstream.stop()

    return "proxy-p99", "the slowest hundredth of such responses, 8 connections", run


def download(port):
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(b"GET /big.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        room, count = memoryview(bytearray(PIECE)), 0
        while True:
            n = client.recv_into(room)
            if n == 0:
                return count
            count += n


def upload(port):
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % BIG)
        piece, count = bytes(PIECE), 0
        while count < BIG:
            client.sendall(piece)
            count += len(piece)
        answer = b""
        while True:
            more = client.recv(PIECE)
            if not more:
                break
            answer += more
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise Unable(f"the upload was answered with {answer[:80]!r}")
        return count


def proxy_large(name, title, upstream_of, transfer):
    def run(place, options, results):
        upstream = upstream_of(place)
        servers = start_all(place, proxies(place, upstream.port))
        growth = {}
        os.sched_setaffinity(0, {place.load_core})

        def load(server, _seconds):
            rest = settled_memory(server.process.pid)
            before, began = cpu_times(server.process.pid), time.monotonic()
            count = transfer(server.port)
            took = time.monotonic() - began
            cpu = cpu_between(before, cpu_times(server.process.pid))
            if count < BIG:
                raise Unable(f"{server.name}: {count} bytes of {BIG}")
            growth.setdefault(server.name, []).append(memory_bytes(server.process.pid) - rest)
            return Sample(cpu / 1000, 1 / took, 0.0, 0.0)

        try:
            samples = rounds_of(servers, load, options)
        finally:
            for server in servers.values():
                server.stop()
            upstream.stop()
        for who, rows in samples.items():
            more = statistics.median(growth[who][1:]) / 1e6
            print(f"  {who:8} {spread([row.cpu_us / 1e6 for row in rows], '.3f'):>30} s of CPU, {more:+.1f} MB afterwards")
            results.measured(name, who, cpu_us=[row.cpu_us for row in rows])
        print_ratios(name, samples, results)

    return name, title, run


def switching(port):
    """A server that switches protocols, then echoes: an upstream for tunnels. Runs until it is stopped."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    begun = set()
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                peer_socket, _ = listener.accept()
                selector.register(peer_socket, selectors.EVENT_READ)
                continue
            try:
                received = key.fileobj.recv(4096)
            except ConnectionError:
                received = b""
            if not received:
                begun.discard(key.fileobj)
                selector.unregister(key.fileobj)
                key.fileobj.close()
            elif key.fileobj in begun:
                key.fileobj.sendall(received)
            elif b"\r\n\r\n" in received:
                begun.add(key.fileobj)
                key.fileobj.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")


def discarding(port):
    """A server that reads each request's body to its end, then answers: an upstream for uploads. nginx would answer first."""

    def serve(client):
        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                more = client.recv(PIECE)
                if not more:
                    return
                received += more
            head, received = received.split(b"\r\n\r\n", 1)
            length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
            left = (int(length.group(1)) if length else 0) - len(received)
            received, room = b"", memoryview(bytearray(PIECE))
            while left > 0:
                n = client.recv_into(room[: min(PIECE, left)])
                if n == 0:
                    return
                left -= n
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    listener = socket.create_server(("127.0.0.1", port))
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def of_this_file(what):
    """One of the upstreams in this file, on the load's core."""
    command = lambda port: [sys.executable, os.path.abspath(__file__), what.__name__, str(port)]
    return lambda place: Server(place, what.__name__, command, {place.load_core})


def tunnel(port):
    client = socket.create_connection(("127.0.0.1", port), 60)
    client.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        more = client.recv(4096)
        if not more:
            raise Unable(f"no tunnel: {head!r}")
        head += more
    if not head.startswith(b"HTTP/1.1 101 "):
        raise Unable(f"no tunnel: {head!r}")
    return client


def proxy_tunnels():
    def run(place, _options, results):
        # A proxy has two descriptors for each, and nginx as many connections.
        count = min(TUNNELS, (place.files - 200) // 200 * 100)
        if count < TUNNELS:
            print(f"  {count:,} tunnels instead of {TUNNELS:,}: a process may open {place.files:,} files; raise ulimit -Hn")
        upstream = of_this_file(switching)(place)
        try:
            for who, command in proxies(place, upstream.port, CONNECTIONS=2 * count + 64).items():
                try:
                    server = Server(place, who, command)
                except Unable as reason:
                    print(f"  without {reason}")
                    continue
                clients, points = [], []
                try:
                    while len(clients) < count:
                        clients += [tunnel(server.port) for _ in range(count // 4)]
                        for client in clients[-10:]:
                            client.sendall(b"x")
                            if client.recv(1) != b"x":
                                raise Unable("a tunnel does not echo")
                        points.append((len(clients), settled_memory(server.process.pid)))
                finally:
                    for client in clients:
                        client.close()
                    server.stop()
                if len(points) < 4:
                    continue
                slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
                print(f"  {who:8}  {slope:>8,.0f} bytes for each of {count:,} tunnels")
                results.measured("proxy-websockets", who, bytes=[slope])
                if who == "heddle":
                    results.figure("proxy-websockets-bytes", slope, "bytes", ".0f")
        finally:
            upstream.stop()

    return "proxy-websockets", "memory of WebSockets through the proxy", run


# ----------------------------------------------------------------------------------------- programs


class PhpFpm:
    """The application of the FastCGI cases, on the load's core: it answers with a short text."""

    def __init__(self, place):
        program = next((path for path in sorted(glob.glob("/usr/sbin/php-fpm*"))), None)
        if program is None:
            raise Unable("php-fpm is not there; run: make setup-bench")
        self.place, self.socket = place, place.path("php.sock")
        with open(os.path.join(place.site, "hello.php"), "w", encoding="utf-8") as file:
            file.write("<?php header('Content-Type: text/plain'); echo 'hello';")
        configuration = place.path("php-fpm.conf")
        root = os.getuid() == 0
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(f"[global]\nerror_log = {place.path('php.log')}\ndaemonize = no\n[www]\nlisten = {self.socket}\n")
            file.write("listen.backlog = 4096\nlisten.mode = 0666\npm = static\npm.max_children = 16\n" + ("user = root\ngroup = root\n" if root else ""))
        command = [program, "--nodaemonize", "--fpm-config", configuration] + (["--allow-to-run-as-root"] if root else [])
        self.process = place.start(command, {place.load_core}, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not os.path.exists(self.socket):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.stop()
                raise Unable("php-fpm does not listen")
            time.sleep(0.02)

    def stop(self):
        self.place.stop(self.process)


def fastcgi_hello():
    def run(place, options, results):
        php = PhpFpm(place)
        try:
            arguments = ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx-fastcgi.conf"]
            commands = {
                "heddle": heddle(place, "--fastcgi", f"/*.php=unix:{php.socket}", "--fastcgi-keep", "8"),
                "nginx": peer(place, "nginx-fastcgi", "nginx", arguments, more={"SOCKET": php.socket}),
            }
            # A process of php-fpm serves one connection, also while that is kept unused: there are enough for both contenders, or the one that
            # comes second waits for connections that the first one keeps.
            contest(place, "fastcgi-hello", commands, wrk(place, 8, "/hello.php"), options, results, check=("/hello.php", b"hello"))
        finally:
            php.stop()

    return "fastcgi-hello", "a short text of php-fpm by FastCGI, 8 connections", run


def programs_of(place):
    """The contenders of the CGI cases: the same C program, below /cgi-bin."""
    program = os.path.join(BUILD, "cgihello")
    if not os.path.exists(program):
        raise Unable(f"cgihello is not there; {how_to_get(program)}")
    programs = place.path("cgi-bin")
    if not os.path.isdir(programs):
        os.mkdir(programs)
        shutil.copy(program, os.path.join(programs, "hello"))
    arguments = ["-D", "-f", "@PREFIX@/lighttpd-cgi.conf"]
    return {
        "heddle": heddle(place, "--cgi", f"/cgi-bin={programs}"),
        "lighttpd": peer(place, "lighttpd-cgi", "lighttpd", arguments, more={"PROGRAMS": programs}),
    }


def cgi_hello():
    def run(place, options, results):
        servers = start_all(place, programs_of(place))
        try:
            # The programs run on the server's core: what counts is how many there are in a second.
            samples = rounds_of(servers, wrk(place, 8, "/cgi-bin/hello"), options)
            print_table("cgi-hello", samples, results)
            print_ratios("cgi-hello-rate", samples, results, field="rate")
        finally:
            for server in servers.values():
                server.stop()

    return "cgi-hello", "a C program started for each request, 8 connections", run


def cgi_spawn():
    def run(place, _options, results):
        program = os.path.join(BUILD, "spawn")
        if not os.path.exists(program):
            raise Unable(f"spawn is not there; {how_to_get(program)}")
        for size in (10, 100, 1000):
            process = place.start([program, str(size)], {place.server_core}, stdout=subprocess.PIPE, text=True)
            try:
                words = process.communicate(timeout=120)[0].split()
            finally:
                place.stop(process)
            if words[::2] != ["spawn", "fork"]:
                raise Unable(f"spawn failed: {' '.join(words)}")
            print(f"  a server of {size:5} MB: {float(words[1]):>9,.0f} µs by posix_spawn, the program loaded; {float(words[3]):>9,.0f} µs by fork alone")
            results.measured(f"cgi-spawn-{size}MB", "heddle", us=[float(words[1])])
            results.measured(f"cgi-spawn-{size}MB", "fork", us=[float(words[3])])

    return "cgi-spawn", "starting a program, by server's size, against fork", run


def asking_steadily(port, path, rate, stop):
    """That many requests in a second, each on a connection of its own, until stopped."""
    due = time.monotonic()
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            while client.recv(4096):
                pass
        due += 1 / rate
        stop.wait(max(0, due - time.monotonic()))


def cgi_beside():
    def run(place, options, results):
        servers = start_all(place, programs_of(place))
        load = wrk(place, 8, "/151.html")
        rows = {}
        os.sched_setaffinity(0, {place.load_core})
        try:
            for _ in range(options.rounds):
                for who, server in servers.items():
                    alone = load(server, options.seconds)
                    stop = threading.Event()
                    thread = threading.Thread(target=asking_steadily, args=(server.port, "/cgi-bin/hello", 50, stop))
                    thread.start()
                    try:
                        beside = load(server, options.seconds)
                    finally:
                        stop.set()
                        thread.join()
                    rows.setdefault(who, []).append((alone, beside))
        finally:
            for server in servers.values():
                server.stop()
        for who, pairs in rows.items():
            alone, beside = [a.p99_us for a, _ in pairs], [b.p99_us for _, b in pairs]
            print(f"  {who:8} p99 {spread(alone, '.0f'):>26} µs alone {spread(beside, '.0f'):>26} µs beside")
            results.measured("cgi-beside", who, alone_us=alone, beside_us=beside)
            ratios(f"cgi-beside/{who}", beside, alone, results)

    return "cgi-beside", "the slowest hundredth of files, beside 50 CGI programs in a second, against without", run


CASES = [
    proxy_small(),
    proxy_calm(),
    proxy_large("proxy-1GB-down", "a response of 1 GB through the proxy", behind, download),
    proxy_large("proxy-1GB-up", "a request of 1 GB through the proxy", of_this_file(discarding), upload),
    proxy_tunnels(),
    fastcgi_hello(),
    cgi_hello(),
    cgi_beside(),
    cgi_spawn(),
]


if __name__ == "__main__":
    {"switching": switching, "discarding": discarding}[sys.argv[1]](int(sys.argv[2]))
