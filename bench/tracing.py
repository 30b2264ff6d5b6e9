"""What event logs cost: the server while it writes one, and `heddle trace` for one of 200 MB. The cases of `run.py trace`."""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

from harness import BENCH, HEDDLE, Unable, in_turn, spread
from servers import PAGE, heddle, print_table, ratios, rounds_of, start_all, wrk

MEGABYTES = 200
# A reader that takes longer, or more memory, is stopped: it says so.
PATIENCE, MEMORY = 120, 6 << 30


def serve_traced():
    def run(place, options, results):
        log = place.path("server.eventlog")
        # In the sandbox a log needs the right to write, so neither is in it.
        commands = {
            "off": heddle(place, "--sandbox", "off"),
            "on": heddle(place, "--sandbox", "off", "+RTS", "-l", f"-ol{log}", "-RTS"),
        }
        servers = start_all(place, commands)
        try:
            if len(servers) < 2:
                raise Unable("heddle serve did not start")
            for server in servers.values():
                if server.get("/151.html") != (200, PAGE):
                    raise Unable(f"{server.name} does not serve the page")
            samples = rounds_of(servers, wrk(place, 64, "/151.html"), options)
            print_table("serve-traced", samples, results)
            on, off = ([sample.cpu_us for sample in samples[who]] for who in ("on", "off"))
            ratios("serve-traced/off", on, off, results)
            print(f"  {os.path.getsize(log):,} bytes of log")
        finally:
            for server in servers.values():
                server.stop()

    return "serve-traced", "a file of 151 bytes, 64 keep-alive connections, with an event log and without", run


def reading(place, command, out):
    """Seconds and kilobytes of a program that reads a log; None if it takes too much of either."""
    with open(out, "wb") as file:
        began = time.monotonic()
        process = place.start(command, set(place.cores), stdout=file, stderr=subprocess.PIPE)
        most = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() - began > PATIENCE or resident(process.pid) > MEMORY:
                process.kill()
                process.wait()
                place.started.remove(process)
                return None
            # A poll every millisecond is 0.05 % of two seconds.
            time.sleep(0.001)
        took, most = time.monotonic() - began, usage.ru_maxrss
        place.started.remove(process)
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0 or said:
        raise Unable(f"{command[0]} ended with {process.returncode}: {said or 'it said nothing'}")
    return took, most


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def log_200():
    def run(place, options, results):
        log = place.path("big.eventlog")
        subprocess.run([sys.executable, os.path.join(BENCH, "eventlog.py"), log, str(MEGABYTES)], check=True)
        print(f"  {os.path.getsize(log):,} bytes")
        page = place.path("page.html")
        commands = {
            "summary": [HEDDLE, "trace", "--summary", log],
            "page": [HEDDLE, "trace", "--page", log],
        }
        if not os.path.exists(HEDDLE):
            raise Unable(f"{HEDDLE} is not there; run: make build")
        # It has a time for each state of each thread, too. It is measured once: it takes long.
        other = shutil.which("ghc-events")
        rows = {name: [] for name in commands}
        for name in in_turn(commands, options.rounds):
            row = reading(place, commands[name], page if name == "page" else os.devnull)
            if row is None:
                raise Unable(f"heddle trace --{name} took more than {PATIENCE} s or {MEMORY >> 30} GB")
            rows[name].append(row)
        for name, found in rows.items():
            seconds, kilobytes = [row[0] for row in found], [row[1] for row in found]
            print(f"  {name:10} {spread(seconds, '.2f')} s, {spread(kilobytes, ',.0f')} kB resident")
            results.figure(f"trace-{name}-seconds", seconds, "seconds", ".2f")
            results.figure(f"trace-{name}-kb", kilobytes, "kb", ".0f")
        results.figure("trace-page-bytes", os.path.getsize(page), "bytes", ".0f")
        if other is None:
            print("  without ghc-events, which is not installed")
            return
        row = reading(place, [other, "profile", "threads", log], os.devnull)
        if row is None:
            print(f"  ghc-events profile threads: stopped, for it took more than {PATIENCE} s or {MEMORY >> 30} GB")
            return
        print(f"  ghc-events {row[0]:.2f} s, {row[1]:,.0f} kB resident")
        results.measured("trace-200MB", "ghc-events", wall_s=[row[0]], resident_kb=[row[1]])
        mine = statistics.median(one[0] for one in rows["summary"])
        results.figure("trace-200MB/ghc-events", mine / row[0], "ratio", ".4f")

    return "trace-200MB", f"an event log of {MEGABYTES} MB of four cores: its tables and its page", run


CASES = [serve_traced(), log_200()]
