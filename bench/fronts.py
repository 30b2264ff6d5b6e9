"""The front of the server: WAI applications, TLS, HTTP/2, WebSocket: the cases of `run.py wai`, `tls` and `h2`.

As in servers.py the server has one core and the load another, and what is measured is the CPU of the server's
processes for each request. All TLS servers have the same key (P-256), the same libssl, TLS 1.3, and its choice of cipher,
which `run.py` prints.
"""
import collections
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess

from harness import BUILD, HEDDLE, Unable, cpu_between, cpu_times, how_to_get, memory_bytes, ratios, spread
from servers import PAGE, Sample, Server, ServerPlace, contest, echoload, memory_of, own, peer, print_ratios, print_table
from servers import rounds_of, settled_memory, start_all, wrk

BIG = 1 << 30
H2_REQUESTS = 100_000
IDLE_CONNECTIONS = 4000

Handshakes = collections.namedtuple("Handshakes", "cpu_us rate")


class FrontPlace(ServerPlace):
    """A workplace with a site, a certificate and its key."""

    def __init__(self):
        super().__init__()
        self.certificate, self.key = self.path("site.pem"), self.path("site.key")
        self.big = os.path.join(self.site, "big.bin")
        with open(self.big, "wb") as file:
            file.truncate(BIG)
        program = shutil.which("openssl")
        if program is None:
            raise Unable("openssl is not there; run: make setup-bench")
        request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
        request += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        made = subprocess.run(
            [program] + request + ["-keyout", self.key, "-out", self.certificate], capture_output=True, text=True
        )
        if made.returncode != 0:
            raise Unable(f"openssl cannot make a certificate: {made.stderr.strip()}")


class TlsServer(Server):
    """A server whose port speaks TLS."""

    def get(self, path):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def cipher(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
        try:
            connection.connect()
            return " ".join(str(word) for word in connection.sock.cipher()[:2])
        finally:
            connection.close()


def heddle_tls(place):
    more = ["--tls-cert", place.certificate, "--tls-key", place.key]
    return lambda port: [HEDDLE, "serve", place.site, "--listen", f"https://127.0.0.1:{port}", "--cores", "1", *more]


def nginx_tls(place, sendfile="off"):
    values = {"CERT": place.certificate, "KEY": place.key}
    return peer(place, "nginx-tls", "nginx", ["-p", "@PREFIX@", "-e", "stderr", "-c", "@PREFIX@/nginx-tls.conf"], sendfile, values)


def h2o_tls(place):
    values = {"CERT": place.certificate, "KEY": place.key}
    return peer(place, "h2o-tls", "h2o", ["-c", "@PREFIX@/h2o-tls.conf"], "off", values)


def built(name):
    program = os.path.join(BUILD, name)
    if not os.path.exists(program):
        raise Unable(f"{name} is not there; {how_to_get(program)}")
    return program


# ---------------------------------------------------------------------------------------------- wai


def hello(connections):
    def run(place, options, results):
        commands = {"heddle": own("bench-wai-heddle"), "warp": own("bench-warp")}
        contest(place, f"wai-{connections}", commands, wrk(place, connections, "/"), options, results, check=("/", PAGE))

    return f"wai-{connections}", f"a WAI application's page of 151 bytes, {connections} keep-alive connections", run


def churn():
    def run(place, options, results):
        script = place.path("ten.lua")
        with open(script, "w", encoding="utf-8") as file:
            # wrk opens a new connection after an answer that closes one.
            file.write(
                "local n = 0\n"
                "local keep, close = wrk.format('GET', '/', {['Host'] = 'localhost'}), wrk.format('GET', '/', {['Host'] = 'localhost', ['Connection'] = 'close'})\n"
                "request = function() n = n + 1; if n % 10 == 0 then return close end; return keep end\n"
            )
        commands = {"heddle": own("bench-wai-heddle"), "warp": own("bench-warp")}
        # Warp does not announce that it closes.
        load = wrk(place, 64, "/", script=script, closed=True)
        servers = start_all(place, commands)
        try:
            samples = rounds_of(servers, load, options)
        finally:
            for server in servers.values():
                server.stop()
        print_table("wai-churn", samples, results)
        print_ratios("wai-churn", samples, results)
        print_ratios("wai-churn-rate", samples, results, field="rate")

    return "wai-churn", "the same page, a new connection for every ten requests", run


def allocated():
    def run(place, _options, results):
        sizes = []
        for requests in (1, 100_001):
            report = place.path(f"rts-{requests}.txt")
            server = Server(place, "heddle", own("bench-wai-heddle", "+RTS", f"-s{report}", "-RTS"))
            try:
                ask(server.port, requests)
                # The runtime reports when the program ends by itself.
                server.process.send_signal(signal.SIGINT)
                server.process.wait(10)
            finally:
                server.stop()
            with open(report, encoding="utf-8") as file:
                found = re.search(r"([\d,]+) bytes allocated in the heap", file.read())
            if not found:
                raise Unable("the runtime reported no allocation")
            sizes.append(int(found.group(1).replace(",", "")))
        each = (sizes[1] - sizes[0]) / 100_000
        print(f"  {each:,.0f} bytes allocated for a request")
        results.figure("wai-bytes", each, "bytes", ".0f")

    return "wai-bytes", "bytes allocated for a request of a WAI application", run


def ask(port, count):
    """That many requests on one connection, one after the other."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(10)
        for _ in range(count):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"</html>"):
                piece = connection.recv(65536)
                if not piece:
                    raise Unable("the server closed the connection")
                answer += piece


def websocket():
    def run(place, options, results):
        commands = {
            "heddle": own("bench-websocket-heddle"),
            "wai-websockets": own("bench-wai-websockets-heddle"),
            "warp": own("bench-wai-websockets-warp"),
        }
        load = echoload(place, 64, 125, websocket=True)
        contest(place, "websocket-125", commands, load, options, results, what="message")

    return "websocket-125", "WebSocket messages of 125 bytes there and back, 64 connections", run


# ---------------------------------------------------------------------------------------------- tls


def tls_kept():
    def run(place, options, results):
        commands = {"heddle": heddle_tls(place), "nginx": nginx_tls(place)}
        server = TlsServer(place, "heddle", heddle_tls(place))
        print(f"  {server.cipher()}")
        server.stop()
        load = wrk(place, 64, "/151.html", scheme="https")
        contest(place, "tls-kept", commands, load, options, results, check=("/151.html", PAGE), kind=TlsServer)

    return "tls-kept", "a file of 151B over TLS 1.3, 64 keep-alive connections", run


def handshake(name, title, resume):
    def load_of(place):
        program = built("tlsload")

        def load(server, seconds):
            command = [program, "--port", str(server.port), "--milliseconds", str(int(1000 * seconds))]
            command += ["--resume", "1" if resume else "0"]
            process = place.start(command, {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                first = process.stdout.readline()
                before = cpu_times(server.process.pid)
                second = process.stdout.readline()
                cpu = cpu_between(before, cpu_times(server.process.pid))
                process.wait(10)
            finally:
                place.stop(process)
            found = re.match(r"handshakes (\d+) resumed (\d+) seconds [\d.]+ rate ([\d.]+)", second)
            if first != "begin\n" or not found:
                raise Unable(f"{server.name}: tlsload failed: {(first + second).strip()}")
            count, resumed = int(found.group(1)), int(found.group(2))
            if resumed != (count if resume else 0):
                raise Unable(f"{server.name}: {resumed} of {count} handshakes were resumed")
            return Handshakes(cpu / 1000 / count, float(found.group(3)))

        return load

    def run(place, options, results):
        servers = start_all(place, {"heddle": heddle_tls(place), "nginx": nginx_tls(place)}, TlsServer)
        try:
            samples = rounds_of(servers, load_of(place), options)
        finally:
            for server in servers.values():
                server.stop()
        for who, rows in samples.items():
            print(f"  {who:8} {spread([row.cpu_us for row in rows], '.1f'):>30} CPU µs a connection")
            results.measured(name, who, cpu_us=[row.cpu_us for row in rows], rate=[row.rate for row in rows])
        print_ratios(name, samples, results)

    return name, title, run


def large():
    def run(place, options, results):
        program = built("tlsload")
        servers = start_all(place, {"heddle": heddle_tls(place), "nginx": nginx_tls(place)}, TlsServer)
        peaks = {}

        def load(server, _seconds):
            rest = settled_memory(server.process.pid)
            before = cpu_times(server.process.pid)
            process = place.start(
                [program, "--port", str(server.port), "--mode", "1"], {place.load_core}, stdout=subprocess.PIPE, text=True
            )
            try:
                output = process.communicate(timeout=120)[0]
            finally:
                place.stop(process)
            cpu = cpu_between(before, cpu_times(server.process.pid))
            if output.split()[:2] != ["bytes", str(BIG)]:
                raise Unable(f"{server.name}: tlsload failed: {output.strip()}")
            peaks.setdefault(server.name, []).append(memory_bytes(server.process.pid) - rest)
            return Handshakes(cpu / 1000, 0.0)

        try:
            samples = rounds_of(servers, load, options)
        finally:
            for server in servers.values():
                server.stop()
        for who, rows in samples.items():
            growth = statistics.median(peaks[who][1:]) / 1e6
            print(f"  {who:8} {spread([row.cpu_us / 1e6 for row in rows], '.3f'):>30} s of CPU, {growth:+.1f} MB afterwards")
            results.measured("tls-1GB", who, cpu_us=[row.cpu_us for row in rows])
        print_ratios("tls-1GB", samples, results)

    return "tls-1GB", "a file of 1 GB over TLS 1.3, one connection", run


def idle(name, title, h2):
    def run(place, _options, results):
        program = built("tlsload")
        count = min(IDLE_CONNECTIONS, (place.files - 1000) // 1000 * 1000)
        for who, command in {"heddle": heddle_tls(place), "nginx": nginx_tls(place)}.items():
            try:
                server = TlsServer(place, who, command)
            except Unable as reason:
                print(f"  without {reason}")
                continue
            try:
                points = memory_of(place, server, [program, "--mode", "2", "--h2", "1" if h2 else "0"], count)
            finally:
                server.stop()
            slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
            print(f"  {who:8}  {slope:>8,.0f} bytes a connection")
            results.measured(name, who, bytes=[slope])
            if who == "heddle":
                results.figure(f"{name}-bytes", slope, "bytes", ".0f")

    return name, title, run


# ----------------------------------------------------------------------------------------------- h2


def h2load(place, path):
    program = shutil.which("h2load")
    if program is None:
        raise Unable("h2load is not there; run: make setup-bench")

    def load(server, seconds):
        count = int(H2_REQUESTS * min(1, seconds / 3))
        command = [program, "-t1", "-c16", "-m10", "-w30", "-W30", "-n", str(count), f"https://127.0.0.1:{server.port}{path}"]
        before = cpu_times(server.process.pid)
        process = place.start(command, {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            output = process.communicate(timeout=120)[0]
        finally:
            place.stop(process)
        cpu = cpu_between(before, cpu_times(server.process.pid))
        rate = re.search(r"finished in [\d.]+m?s, ([\d.]+) req/s", output)
        done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", output)
        mean = re.search(r"time for request:\s+(\S+)\s+(\S+)\s+(\S+)", output)
        protocol = re.search(r"Application protocol: (\S+)", output)
        good = rate and done and mean and int(done.group(1)) == count and protocol and protocol.group(1) == "h2"
        if not good:
            raise Unable(f"{server.name}: h2load failed: {output.strip()[-400:]}")
        times = [1e6 * float(t[:-1]) if re.fullmatch(r"[\d.]+s", t) else to_microseconds(t) for t in mean.groups()]
        return Sample(cpu / 1000 / count, float(rate.group(1)), times[2], times[1])

    return load


def to_microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def h2(label, path):
    def run(place, options, results):
        commands = {"heddle": heddle_tls(place), "nginx": nginx_tls(place), "h2o": h2o_tls(place)}
        with open(place.site + path, "rb") as file:
            body = file.read()
        print("  (the columns p50 and p99 are the mean and the maximum here)")
        contest(place, f"h2-{label}", commands, h2load(place, path), options, results, check=(path, body), kind=TlsServer)

    return f"h2-{label}", f"a file of {label} over HTTP/2 and TLS 1.3, 16 connections with 10 streams each", run


CASES = {
    "wai": [hello(64), hello(400), churn(), allocated(), websocket()],
    "tls": [
        tls_kept(),
        handshake("handshake-full", "new TLS 1.3 connections with one request, full handshakes", False),
        handshake("handshake-resumed", "the same, resumed by ticket", True),
        large(),
        idle("idle-tls", "memory of idle connections over TLS, HTTP/1.1", False),
    ],
    "h2": [
        h2("151B", "/151.html"),
        h2("16KB", "/16k.html"),
        idle("idle-h2", "memory of idle connections over TLS, HTTP/2", True),
    ],
}
