"""Curves of the Mio paper: servers over cores and over connections, and whole distributions of response times.

The cases belong to the suites `io` and `serve`. A server on so many cores has the first ones; the load has the others where there
are as many, and otherwise shares them all, which limits the throughput and is said in each figure. The processor time of a request
does not depend on that.
"""
import collections
import re
import statistics
import subprocess

from harness import Unable, core_counts, cpu_between, cpu_times, found, ratios, spread
from servers import PAGE, Server, c_twin, echo_values, heddle, mighttpd2, nginx, own, peer, print_table, rounds_of, start_all, wrk

CONNECTIONS = (1, 16, 64, 400, 1600)
# As the paper's: a closed loop of so many clients.
CLIENTS = 400
# Shares of requests, in percent, of a distribution.
SHARES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)

Distribution = collections.namedtuple("Distribution", "cpu_us rate p50_us p99_us mean_us times")

# wrk's own output has four shares only.
SCRIPT = """done = function(summary, latency, requests)
  io.write("mean ", latency.mean, "\\n")
  for share in string.gmatch("{shares}", "[^ ]+") do
    io.write("share ", share, " ", latency:percentile(tonumber(share)), "\\n")
  end
end
"""


def load_cores(place, count):
    """The cores that a server on the first ones leaves to its load."""
    rest = place.cores[count:]
    return set(rest if len(rest) >= count else place.cores)


def over_cores(case, title, contenders, connections, path):
    """The same servers on one core, on two, and on as many as there are."""

    def run(place, options, results):
        servers, loads = {}, {}
        try:
            for count in core_counts(place):
                cores = load_cores(place, count)
                if cores & set(place.cores[:count]):
                    print(f"  on {count} cores the load shares them with the server")
                for name, command in contenders(place, count).items():
                    try:
                        server = Server(place, f"{name}-on-{count}", command, cores=set(place.cores[:count]))
                    except Unable as reason:
                        print(f"  without {reason}")
                        continue
                    status, body = server.get(path)
                    if status != 200 or body != PAGE:
                        print(f"  without {server.name}: GET {path} gave status {status} and {len(body)} bytes, not the page")
                        server.stop()
                        continue
                    servers[server.name] = server
                    loads[server.name] = wrk(place, connections, path, min(len(cores), connections), cores)
            samples = rounds_of(servers, lambda server, seconds: loads[server.name](server, seconds), options)
        finally:
            for server in servers.values():
                server.stop()
        print_table(case, samples, results)
        for count in core_counts(place):
            mine = f"heddle-on-{count}"
            for name in samples:
                peer_name, _, on = name.rpartition("-on-")
                if mine in samples and peer_name != "heddle" and on == str(count):
                    ratios(f"{case}-{count}/{peer_name}", *([row.cpu_us for row in samples[who]] for who in (mine, name)), results)

    return case, title, run


def simple_servers(place, count):
    return {
        "heddle": own("bench-fixed-heddle", cores=count),
        "c-twin": c_twin("fixed", count),
        "stock": own("bench-fixed-stock", cores=count),
    }


def file_servers(place, count):
    return {
        "heddle": heddle(place, cores=count),
        "nginx": nginx(place, "off", WORKERS=count),
        "h2o": peer(place, "h2o", "h2o", ["-c", "@PREFIX@/h2o.conf"], more={"WORKERS": count}),
        # mighty has no option for cores; its own is one.
        **({"mighttpd2": mighttpd2(place)} if count == 1 else {}),
    }


def over_connections():
    """A server on one core, by how many connections are busy."""
    case = "fixed-connections"

    def run(place, options, results):
        counts = [count for count in CONNECTIONS if count <= place.files - 200]
        servers = start_all(place, simple_servers(place, 1))
        try:
            for count in counts:
                print(f"  {count:,} connections")
                samples = rounds_of(servers, wrk(place, count, "/"), options)
                print_table(case, {f"{name}-{count}": rows for name, rows in samples.items()}, results)
                for name in samples:
                    if name != "heddle" and "heddle" in samples:
                        ratios(f"{case}-{count}/{name}", *([row.cpu_us for row in samples[who]] for who in ("heddle", name)), results)
        finally:
            for server in servers.values():
                server.stop()

    return case, f"a fixed response of 151 bytes, {CONNECTIONS[0]} to {CONNECTIONS[-1]:,} keep-alive connections", run


# ------------------------------------------------------------------------------------ distributions


def timed_wrk(place, connections, path):
    """A load that also answers with the distribution of response times."""
    program, script = found("wrk"), place.path("shares.lua")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT.replace("{shares}", " ".join(f"{share:g}" for share in SHARES)))

    def load(server, seconds):
        command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{server.port}{path}"]
        before = cpu_times(server.process.pid)
        process = place.start(command, {place.load_core}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = process.communicate(timeout=seconds + 60)[0]
        cpu = cpu_between(before, cpu_times(server.process.pid))
        place.stop(process)
        count, rate = re.search(r"(\d+) requests in", output), re.search(r"Requests/sec:\s+([\d.]+)", output)
        times = {float(share): float(value) for share, value in re.findall(r"^share ([\d.]+) ([\d.]+)$", output, re.MULTILINE)}
        mean = re.search(r"^mean ([\d.]+)$", output, re.MULTILINE)
        if process.returncode != 0 or not (count and rate and mean) or len(times) != len(SHARES) or "Non-2xx" in output:
            raise Unable(f"{server.name}: wrk failed: {output.strip()}")
        return Distribution(cpu / 1000 / int(count[1]), float(rate[1]), times[50], times[99], float(mean[1]), times)

    return load


def distributions(case, title, contenders, load_of):
    def run(place, options, results):
        servers = start_all(place, contenders(place))
        try:
            samples = rounds_of(servers, load_of(place), options)
        finally:
            for server in servers.values():
                server.stop()
        print(f"  {'':15} {'mean µs':>26} " + " ".join(f"{share:>8g}%" for share in SHARES))
        for name, rows in samples.items():
            by_share = {share: [row.times[share] for row in rows] for share in SHARES}
            print(f"  {name:15} {spread([row.mean_us for row in rows], '.1f'):>26} " + " ".join(f"{statistics.median(values):>9.1f}" for values in by_share.values()))
            results.measured(case, name, cpu_us=[row.cpu_us for row in rows], rate=[row.rate for row in rows], mean_us=[row.mean_us for row in rows])
            for share, values in by_share.items():
                results.measured(case, name, **{f"p{share:g}_us": values})
        for name in samples:
            # The servers without parsing are there for their curves.
            if name != "heddle" and "heddle" in samples and not name.startswith("fixed-"):
                for field, suffix in (("mean_us", "mean"), ("p99_us", "p99")):
                    ratios(f"{case}-{suffix}/{name}", *([getattr(row, field) for row in samples[who]] for who in ("heddle", name)), results)

    return case, title, run


def echo_servers(place):
    return {
        "heddle": own("bench-echo-heddle"),
        "c-twin": c_twin("echo"),
        "stock": own("bench-echo-stock"),
        "stock-unthreaded": own("bench-echo-stock-unthreaded"),
    }


def echo_times(place):
    load = echo_values(place, 1)

    def timed(server, seconds):
        cpu, values = load(server, seconds)
        times = {share: values[f"p{share:g}_us"] for share in SHARES}
        return Distribution(cpu / 1000 / values["round_trips"], values["rate"], times[50], times[99], values["mean_us"], times)

    return timed


def saturated(place):
    return {
        "heddle": heddle(place),
        "nginx": nginx(place, "off"),
        "mighttpd2": mighttpd2(place),
        "fixed-heddle": own("bench-fixed-heddle"),
        "fixed-stock": own("bench-fixed-stock"),
        "fixed-c": c_twin("fixed"),
    }


# ----------------------------------------------------------------------------------------- bursts

BURST = 20
PIPELINE = f"""init = function()
  local all = {{}}
  for i = 1, {BURST} do all[i] = wrk.format() end
  burst = table.concat(all)
end
request = function() return burst end
"""


def bursts():
    """httperf's bursts of the Mighttpd article: requests in one piece, and then their answers."""
    case = f"burst-{BURST}"

    def run(place, options, results):
        script = place.path("burst.lua")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PIPELINE)
        servers = start_all(place, {**file_servers(place, 1), "warp": own("bench-warp")})
        try:
            samples = rounds_of(servers, wrk(place, 64, "/151.html", script=script), options)
        finally:
            for server in servers.values():
                server.stop()
        # wrk has no latencies of single requests here.
        for name, rows in samples.items():
            cpu, rate = ([getattr(row, field) for row in rows] for field in ("cpu_us", "rate"))
            print(f"  {name:10} {spread(cpu, '.2f'):>26} CPU µs/request {spread(rate, ',.0f'):>32} requests/s")
            results.measured(case, name, cpu_us=cpu, rate=rate)
        for name in samples:
            if name != "heddle" and "heddle" in samples:
                ratios(f"{case}/{name}", *([row.cpu_us for row in samples[who]] for who in ("heddle", name)), results)

    return case, f"bursts of {BURST} requests sent in one piece, 64 keep-alive connections, a file of 151B", run


IO_CASES = [
    over_cores("fixed-cores", f"a fixed response of 151 bytes by cores, {CLIENTS} connections", simple_servers, CLIENTS, "/"),
    over_connections(),
    distributions("echo-times", "64 bytes there and back, one connection: the distribution of round trips", echo_servers, echo_times),
]
SERVE_CASES = [
    over_cores("static-cores", f"a file of 151B by cores, {CLIENTS} connections", file_servers, CLIENTS, "/151.html"),
    distributions(
        "response-times",
        f"the distribution of response times of saturated servers, {CLIENTS} connections (fixed: without parsing)",
        saturated,
        lambda place: timed_wrk(place, CLIENTS, "/151.html"),
    ),
    bursts(),
]
