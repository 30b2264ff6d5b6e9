#!/usr/bin/env python3
"""Draws timelines of a fixed response on GHC's event manager and on Heddle's: the Mio paper's Figures 6 to 10, from our own runs.

usage: timelines.py [--out FILE] [--seconds N] [--connections N] [--cores N]

Each server runs with an event log (+RTS -l) under a load of wrk. Of the middle of each log two extracts are drawn: 20 ms, in which
one sees whether cores are busy, and the first part of them, in which one sees single threads. Written is one page without other files,
docs/results/timelines.html.
"""
import argparse
import bisect
import html
import os
import signal
import struct
import subprocess
import sys

from harness import BENCH, BUILD, Unable, machine, now, commit, prepare_process
from servers import Server, ServerPlace, wrk

PAGE = os.path.join(os.path.dirname(BENCH), "docs", "results", "timelines.html")
# Nanoseconds of an extract: what one sees of cores, and of threads.
WIDE, NARROW = 20_000_000, 400_000
WIDTH, LEFT, LANE, GAP, ACTIVITY = 960, 64, 26, 14, 34
# What a thread stops for, of those that make it wait for another thread or for the event manager.
WAITS = {7: "MVar", 8: "evaluation", 12: "STM", 20: "MVar"}

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Timelines of two event managers</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --line: #d5dae1; --back: #fff; --card: #f6f7f9; --run: #b9c2cd; --manager: #0b62c4; --gc: #d97706; --active: #15803d }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39414d; --back: #14171c; --card: #1c2128; --run: #59636e; --manager: #5aa9ff; --gc: #f0a02c; --active: #4ade80 } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 64rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin: 2rem 0 .3rem } p { margin: .4rem 0 } .soft { color: var(--soft); font-size: .9rem }
figure { margin: 1rem 0; padding: .6rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow-x: auto } figcaption { font-size: .9rem; color: var(--soft) }
svg { display: block; min-width: 48rem; width: 100%; height: auto } svg text { fill: var(--ink); font: 11px system-ui, sans-serif } svg .soft { fill: var(--soft) }
.lane { fill: none; stroke: var(--line) } .run { stroke: var(--run) } .manager { stroke: var(--manager) } .gc { stroke: var(--gc) } .run, .manager, .gc { stroke-width: 18; fill: none }
.wake { stroke: var(--ink); stroke-width: 1; fill: none } .wait { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 2; fill: none } .active { fill: var(--active) }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 } td, th { text-align: right; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line) } td:first-child, th:first-child { text-align: left }
code { font-size: .85rem; overflow-wrap: anywhere } a { color: var(--manager) }
</style>
</head>
<body>
"""


# ------------------------------------------------------------------------------------------- a log


class EventLog:
    """The events of a log's middle, for each capability in the order of time; only those that are drawn."""

    def __init__(self, path, span):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.sizes, at = self.header()
        blocks = list(self.blocks(at))
        if not blocks:
            raise Unable(f"{path} has no events")
        threads = [(begin, end) for _, begin, end, capability, _ in blocks if capability != 0xFFFF]
        first, last = min(begin for begin, _ in threads), max(end for _, end in threads)
        self.begin = first + (last - first) // 2
        self.end = self.begin + span
        self.labels, self.lanes = {}, {}
        for at, begin, end, capability, length in blocks:
            self.lanes.setdefault(capability, [])
            # Labels come when threads start, so all blocks before count.
            if begin <= self.end:
                self.events(at, at + length, capability)
        self.lanes.pop(0xFFFF, None)

    def header(self):
        if self.bytes[:8] != b"hdrbhetb":
            raise Unable("the event log has no header")
        sizes, at = {}, 8
        while self.bytes[at:at + 4] == b"etb\0":
            number, size, description = struct.unpack_from(">HHI", self.bytes, at + 4)
            (extra,) = struct.unpack_from(">I", self.bytes, at + 12 + description)
            sizes[number] = -1 if size == 0xFFFF else size
            at += 20 + description + extra
        return sizes, at + 12

    def blocks(self, at):
        while at + 24 <= len(self.bytes) and self.bytes[at:at + 2] == b"\0\x12":
            begin, length, end, capability = struct.unpack_from(">QIQH", self.bytes, at + 2)
            yield at, begin, end, capability, length
            at += length

    def events(self, at, end, capability):
        data, sizes, lane = self.bytes, self.sizes, self.lanes[capability]
        wide = sizes.get(1) == 8
        thread = struct.Struct(">Q" if wide else ">I")
        end = min(end, len(data))
        while at + 10 <= end:
            kind, time = struct.unpack_from(">HQ", data, at)
            size = sizes.get(kind)
            if size is None:
                return
            at += 10
            if size < 0:
                (size,) = struct.unpack_from(">H", data, at)
                at += 2
            if kind == 44:
                self.labels[thread.unpack_from(data, at)[0]] = data[at + thread.size:at + size].decode(errors="replace")
            elif time > self.end:
                return
            elif kind in (1, 2, 8, 9, 10):
                who = thread.unpack_from(data, at)[0] if kind in (1, 2, 8) else 0
                more = struct.unpack_from(">H", data, at + thread.size)[0] if kind in (2, 8) else 0
                lane.append((time, kind, who, more))
            at += size

    def is_manager(self, thread):
        label = self.labels.get(thread, "")
        return label.startswith(("IOManager", "TimerManager")) or "io/manager" in label


class Extract:
    """Runs, collections, wake-ups and waits of each capability between two times."""

    def __init__(self, log, begin, end):
        self.log, self.begin, self.end, self.lanes = log, begin, end, {}
        for capability, events in sorted(log.lanes.items()):
            runs, marks, since, thread = [], [], None, None
            # From the last event before: a run may have begun there.
            start = max(0, bisect.bisect_left(events, (begin,)) - 200)
            for time, kind, who, more in events[start:]:
                if time > end:
                    break
                if kind in (1, 9):
                    since, thread = time, who if kind == 1 else -1
                elif kind in (2, 10):
                    if since is not None and time >= begin:
                        runs.append((max(since, begin), time, thread))
                    if kind == 2 and more in WAITS and time >= begin:
                        marks.append((time, "wait", who))
                    since = None
                elif kind == 8 and time >= begin:
                    marks.append((time, "wake", who))
            if since is not None:
                runs.append((max(since, begin), end, thread))
            self.lanes[capability] = (runs, marks)

    def numbers(self):
        span, count = self.end - self.begin, max(1, len(self.lanes))
        busy = sum(to - since for runs, _ in self.lanes.values() for since, to, _ in runs)
        managing = sum(to - since for runs, _ in self.lanes.values() for since, to, who in runs if who >= 0 and self.log.is_manager(who))
        runs = sum(1 for runs, _ in self.lanes.values() for run in runs if run[2] >= 0)
        marks = {kind: sum(1 for _, marks in self.lanes.values() for mark in marks if mark[1] == kind) for kind in ("wake", "wait")}
        return {"busy": busy / span / count, "managing": managing / span / count, "runs": runs, **marks}

    def drawing(self, title):
        span, room = self.end - self.begin, WIDTH - LEFT - 8
        across = lambda time: LEFT + room * (time - self.begin) / span
        height = ACTIVITY + GAP + len(self.lanes) * (LANE + GAP) + 22
        parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">', f'<text x="4" y="{ACTIVITY - 8}">Activity</text>', self.activity(across)]
        for row, (capability, (runs, marks)) in enumerate(self.lanes.items()):
            y = ACTIVITY + GAP + row * (LANE + GAP)
            middle = y + LANE // 2
            parts.append(f'<text x="4" y="{middle + 4}">core {capability}</text><rect class="lane" x="{LEFT}" y="{y}" width="{room}" height="{LANE}"/>')
            of = {"run": [], "manager": [], "gc": []}
            names, last = [], {}
            for since, to, who in runs:
                kind = "gc" if who < 0 else "manager" if self.log.is_manager(who) else "run"
                left, right = across(since), across(to)
                width = max(0.2, right - left)
                # Runs closer than what can be seen become one.
                if of[kind] and left - last[kind][1] < 0.2:
                    last[kind] = (last[kind][0], max(last[kind][1], left + width))
                    of[kind][-1] = f"M{last[kind][0]:.1f} {middle}H{last[kind][1]:.1f}"
                else:
                    last[kind] = (left, left + width)
                    of[kind].append(f"M{left:.1f} {middle}H{left + width:.1f}")
                if who >= 0 and right - left > 7 * len(str(who)) + 4:
                    names.append(f'<text x="{left + 2:.1f}" y="{middle + 4}">{who}</text>')
            parts += [f'<path class="{kind}" d="{"".join(pieces)}"/>' for kind, pieces in of.items() if pieces]
            for kind in ("wait", "wake"):
                seen = sorted({f"{across(time):.1f}" for time, what, _ in marks if what == kind}, key=float)
                if seen:
                    parts.append(f'<path class="{kind}" d="' + "".join(f"M{x} {y - 3}V{y + LANE + 3}" for x in seen) + '"/>')
            parts += names
        scale = 10 ** (len(str(span // 4)) - 1)
        parts.append(f'<path class="wake" d="M{LEFT} {height - 8}h{room * scale / span:.1f}"/><text class="soft" x="{LEFT + room * scale / span + 6:.1f}" y="{height - 4}">{scale // 1000} µs</text>')
        return "\n".join(parts + ["</svg>"])

    def activity(self, across):
        """How many cores run a thread, as a share of them, in steps of four pixels."""
        steps = (WIDTH - LEFT - 8) // 4
        span = self.end - self.begin
        busy = [0] * steps
        for runs, _ in self.lanes.values():
            for since, to, _ in runs:
                first, last = int((since - self.begin) * steps / span), min(steps - 1, int((to - self.begin) * steps / span))
                for step in range(first, last + 1):
                    left, right = self.begin + span * step / steps, self.begin + span * (step + 1) / steps
                    busy[step] += max(0, min(to, right) - max(since, left))
        whole = span / steps * max(1, len(self.lanes))
        points = "".join(f"L{across(self.begin + span * step / steps):.0f} {4 + 26 * (1 - min(1, value / whole)):.1f}h4" for step, value in enumerate(busy))
        return f'<path class="active" d="M{LEFT} 30{points}V30Z"/>'


# -------------------------------------------------------------------------------------------- runs


def recorded(place, name, program, options):
    """A server under load: its log, and how many requests it answered a second."""
    log = place.path(f"{name}.eventlog")
    command = lambda port: [os.path.join(BUILD, program), str(port), str(options.cores), "+RTS", "-l", f"-ol{log}", "-RTS"]
    cores = set(place.cores[:options.cores])
    server = Server(place, name, command, cores)
    try:
        sample = wrk(place, options.connections, "/", cores=cores)(server, options.seconds)
    finally:
        # The log's end is written by a program that ends itself.
        server.process.send_signal(signal.SIGINT)
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.stop()
            raise Unable(f"{name} did not end after SIGINT") from None
    return log, sample


def written(options, drawn):
    shown = f"wrk -c{options.connections} -d{options.seconds}s"
    parts = [
        HEAD,
        "<h1>Timelines of two event managers</h1>",
        f"<p>The <a href=\"index.html#mio\">Mio paper's</a> Figures 6 to 10 show its fixed response (Figure 4) on GHC's manager of that time, with one dispatcher for all cores and a lock that threads queue for, and on the "
        f"way to Mio, with a dispatcher for each core. Mio is GHC's manager today, so the first of these timelines is what the paper ends with (Figure 10), and Figures 6 to 9 cannot "
        f"occur any more. The second is the same server on Heddle's event manager.</p>",
        f"<p class=\"soft\">{html.escape(machine())}; {options.cores} capabilities; load: <code>{shown}</code> on the same cores; servers <code>bench-fixed-stock</code> and <code>bench-fixed-heddle</code> with "
        f"<code>+RTS -l</code>; commit {html.escape(commit())}, {now()[:16].replace('T', ' ')}. Drawn again by <code>make bench-timelines</code>.</p>",
        "<p class=\"soft\">Grey: a thread runs, with its number where there is room; blue: an event manager's thread; orange: a collection. A solid line: a thread of this core wakes another one. A dashed line: a thread begins to wait, for an "
        "<code>MVar</code> or STM, which is also how it waits for a descriptor. White: the core runs no Haskell thread, as when it is in a system call that may block, or the load has it.</p>",
        "<table><tr><th></th><th>requests/s, with the log</th><th>cores busy</th><th>of it managers</th><th>runs</th><th>wake-ups</th><th>waits</th></tr>",
    ]
    for title, sample, extracts in drawn:
        n = extracts[0].numbers()
        parts.append(f"<tr><td>{html.escape(title)}</td><td>{sample.rate:,.0f}</td><td>{100 * n['busy']:.0f} %</td><td>{100 * n['managing']:.0f} %</td><td>{n['runs']:,}</td><td>{n['wake']:,}</td><td>{n['wait']:,}</td></tr>")
    parts.append(f"</table><p class=\"soft\">The shares and counts are those of the {WIDE // 1_000_000} ms that are drawn.</p>")
    for title, _, extracts in drawn:
        parts.append(f"<h2>{html.escape(title)}</h2>")
        for extract in extracts:
            span = extract.end - extract.begin
            caption = f"{span // 1_000_000} ms" if span >= 1_000_000 else f"the first {span // 1000} µs of them"
            parts.append(f"<figure>{extract.drawing(f'{title}, {caption}')}<figcaption>{caption}</figcaption></figure>")
    return "\n".join(parts) + "\n</body>\n</html>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="FILE", default=PAGE, help="the page (docs/results/timelines.html)")
    parser.add_argument("--seconds", type=int, default=2, help="how long each server has load (2)")
    parser.add_argument("--connections", type=int, default=400, help="of the load (400, as in the paper)")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="capabilities of the servers (all)")
    options = parser.parse_args()
    prepare_process()
    place = None
    try:
        place = ServerPlace()
        drawn = []
        for title, name, program in (("GHC's event manager (Mio)", "stock", "bench-fixed-stock"), ("Heddle's event manager", "heddle", "bench-fixed-heddle")):
            path, sample = recorded(place, name, program, options)
            log = EventLog(path, WIDE)
            drawn.append((title, sample, [Extract(log, log.begin, log.end), Extract(log, log.begin, log.begin + NARROW)]))
            print(f"{title}: {os.path.getsize(path):,} bytes of log, {sample.rate:,.0f} requests/s")
    except Unable as reason:
        sys.exit(f"timelines.py: {reason}")
    finally:
        if place:
            place.close()
    text = written(options, drawn)
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{options.out}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
