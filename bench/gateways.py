"""What is behind the server: the reverse proxy and programs; the cases of `run.py gateways`.

As in servers.py the measured server has one core. The load has another, and so have the upstreams, which are the same for all
contenders. What is measured is the CPU of the server's processes for each request.
"""
import os
import re
import selectors
import socket
import statistics
import sys
import threading
import time

from harness import Unable, cpu_between, cpu_times, memory_bytes, spread
from servers import CONNECTIONS, PAGE, Sample, Server, ServerPlace, contest, heddle, peer, print_ratios, rounds_of, settled_memory, start_all, wrk

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


def proxies(place, upstream):
    """The contenders, before a port."""
    arguments = ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx-proxy.conf"]

    def ours(port):
        command = heddle(place, "--proxy", f"/=http://127.0.0.1:{upstream}")(port)
        # Nothing of the site is served by itself.
        return [place.empty if word == place.site else word for word in command]

    return {"heddle": ours, "nginx": peer(place, "nginx-proxy", "nginx", arguments, more={"UPSTREAM": upstream})}


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
        # nginx has two connections for each.
        count = min(TUNNELS, (min(place.files, CONNECTIONS) - 1000) // 2000 * 1000)
        upstream = of_this_file(switching)(place)
        try:
            for who, command in proxies(place, upstream.port).items():
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


CASES = [
    proxy_small(),
    proxy_calm(),
    proxy_large("proxy-1GB-down", "a response of 1 GB through the proxy", behind, download),
    proxy_large("proxy-1GB-up", "a request of 1 GB through the proxy", of_this_file(discarding), upload),
    proxy_tunnels(),
]


if __name__ == "__main__":
    {"switching": switching, "discarding": discarding}[sys.argv[1]](int(sys.argv[2]))
