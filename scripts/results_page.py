#!/usr/bin/env python3
"""Makes the page that re-measures the figures and tables of the documents behind Heddle, from raw results.

usage: results_page.py [FOLDER [PAGE]]

FOLDER has the results, as `bench/run.py --keep` writes them (docs/results); PAGE is written (FOLDER/index.html). What is
compared with what stands in docs/results/seeds.toml. The page needs no other file and no network; results that were not
measured are said to be missing, beside the command that measures them.
"""
import html
import os
import re
import sys
import tomllib

import results as recorded
import results_plot as plot

SEEDS = os.path.join("docs", "results", "seeds.toml")
PANELS = ("bars", "curve", "shares", "table")
COMMAND = re.compile(r"make bench-(\S+)|--only ([^\s']+)")

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Heddle: the documents, measured again</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --line: #d5dae1; --back: #fff; --card: #f6f7f9;
  --c0: #0b62c4; --c1: #c2410c; --c2: #15803d; --c3: #7e22ce; --c4: #a16207; --c5: #be185d; --c6: #0e7490; --bar: #a9b4c2 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39414d; --back: #14171c; --card: #1c2128;
    --c0: #5aa9ff; --c1: #fb923c; --c2: #4ade80; --c3: #c084fc; --c4: #facc15; --c5: #f472b6; --c6: #22d3ee; --bar: #5b6675 } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 52rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem } h3 { font-size: 1rem; margin: 0 }
p { margin: .4rem 0 } .soft { color: var(--soft); font-size: .9rem }
section.figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 }
td, th { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code { font-size: .85rem; overflow-wrap: anywhere } .ratios td, .ratios code { white-space: nowrap }
svg { width: 100%; min-width: 24rem; max-width: 40rem; height: auto; display: block; margin: .5rem 0 }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif } svg .soft { fill: var(--soft) }
svg .axis { stroke: var(--line); fill: none }
.bars { display: grid; grid-template-columns: minmax(5rem, max-content) minmax(4rem, 1fr) max-content; gap: .15rem .6rem; font-size: .88rem; margin: .5rem 0; align-items: center }
.bars .unit { grid-column: 1 / 4; color: var(--soft) }
.bars .track { position: relative; height: 1rem } .bars .bar { position: absolute; top: 0; height: 100%; border-radius: 2px; background: var(--bar) }
.bars .own { background: var(--c0) } .bars .spread { position: absolute; top: 50%; border-top: 1.5px solid var(--ink) }
.key { list-style: none; padding: 0; margin: .2rem 0 .6rem; display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .88rem }
.key i { display: inline-block; width: 1.5rem; border-top: 2px solid; vertical-align: middle; margin-right: .4rem } .key .given { border-top-style: dashed }
nav a { margin-right: 1rem } a { color: var(--c0) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .5rem 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0 }
</style>
</head>
<body>
<h1>The documents, measured again</h1>
<p>For every figure and table of the documents that describe Heddle's systems: their number, ours, the peer's, and the command
that measures it. A ratio is Heddle's cost divided by the peer's, so below 1 Heddle needs less. All contenders of a run take turns; the
ratio is estimated from those of the rounds, and has a 95 % interval in brackets. The lines in bars and at points are such
intervals, too. Solid lines and bars were measured here, dashed lines are printed in the document or
follow from the model at the end. What says "not measured" has no recorded result yet; its command makes one.</p>
"""


def escape(text):
    return html.escape(str(text), quote=True)


# ------------------------------------------------------------------------------- what the page refers to


def panels(figure):
    """The plots and tables of a figure, as pairs of kind and contents."""
    own = [(kind, figure[kind]) for kind in PANELS if kind in figure]
    return own + [next((kind, panel[kind]) for kind in PANELS if kind in panel) for panel in figure.get("more", [])]


def points_of(one):
    """The results of a series of a curve, with their places."""
    return [(place, one["of"].replace("{x}", str(place))) for place in one.get("xs", [])]


def groups(seeds):
    """Lists of results of which one is enough (a curve has a point for each number of cores, and a machine not all of them), each
    with the command that measures it."""
    for figure in seeds["figure"]:
        single = list(figure.get("ratios", []))
        for kind, panel in panels(figure):
            if kind == "bars":
                single += [row[1] for row in panel["rows"]]
            elif kind == "table":
                single += [cell[1:] for row in panel["rows"] for cell in row if cell.startswith("=")]
            else:
                for one in panel["series"]:
                    names = [name for _, name in points_of(one)]
                    # A series of so many cores is there where the machine has them.
                    if names and "cores" not in one:
                        yield names, figure["command"]
        for name in single:
            yield [name], figure["command"]
    for entry in seeds["growth"]:
        yield [entry["result"]], entry["command"]
    for server in seeds["model"]["server"]:
        for name in ("cost", "waits"):
            yield [server[name]], seeds["model"]["command"]
    yield [seeds["model"]["wake"]], seeds["model"]["command"]


def missing(results, seeds):
    """Complaints about names that no case of ours has written, though it was recorded; and notes of cases that were not."""
    cases = {(suite, case["case"]) for suite, document in results.suites.items() for case in document["cases"]}
    complaints, notes = [], {}
    for names, command in groups(seeds):
        if any(name in results.values for name in names):
            continue
        words = COMMAND.findall(command)
        suite, absent = None, []
        for new, case in words:
            suite = new or suite
            if case and (suite, case) not in cases:
                absent.append(f"{suite} {case}")
        if absent:
            notes.update(dict.fromkeys(absent))
        else:
            complaints.append(f"{SEEDS}: there is no result {names[0]}, which `{command}` should have recorded")
    return complaints, list(notes)


# ------------------------------------------------------------------------------------------- the page


class Page:
    """The results, and the lines of the page so far."""

    def __init__(self, results, prefix):
        self.results, self.prefix, self.lines = results, prefix, [HEAD]

    def numbers(self, name, scale=1):
        """The number and its interval, or None three times."""
        value = self.value(name)
        found = (recorded.middle(value), *recorded.interval(value)) if value else (None, None, None)
        return tuple(number if number is None else number * scale for number in found)

    def value(self, name):
        return self.results.values.get(name)

    def text(self, name):
        value = self.value(name)
        return recorded.formatted(value) if value else "not measured"

    def add(self, *lines):
        self.lines += lines

    def drawn(self, kind, panel):
        if kind == "table":
            return self.table(panel)
        if kind == "bars":
            return plot.bars(panel["unit"], [(label, *self.numbers(name), self.text(name)) for label, name in panel["rows"]], panel.get("log", False))
        lines = []
        for one in panel["series"]:
            if "given" in one:
                lines.append((one["name"], [(*point, None, None) for point in one["given"]], True))
                continue
            points = [(place, *self.numbers(name, one.get("scale", 1))) for place, name in points_of(one) if self.value(name)]
            if points or "cores" not in one:
                lines.append((one["name"], points, False))
        if kind == "shares":
            return plot.shares(panel["x"], lines)
        return plot.curve(panel["x"], panel["y"], lines, panel.get("log", True))

    def table(self, panel):
        rows = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in panel["head"]) + "</tr>"]
        for row in panel["rows"]:
            cells = [self.text(cell[1:]) if cell.startswith("=") else cell for cell in row]
            rows.append("<tr>" + "".join(f'<td{" class=" + chr(34) + "number" + chr(34) if place else ""}>{escape(cell)}</td>' for place, cell in enumerate(cells)) + "</tr>")
        return '<div class="wide"><table>' + "\n".join(rows) + "</table></div>"

    def figure(self, figure):
        self.add('<section class="figure">', f"<h3>{escape(figure['item'])}: {escape(figure['title'])}</h3>")
        self.add(f"<p class=\"soft\">The document: {escape(figure['paper'])}</p>")
        for kind, panel in panels(figure):
            self.add(self.drawn(kind, panel))
        if "timelines" in figure:
            there = os.path.exists(os.path.join("docs", "results", figure["timelines"]))
            self.add(f'<p><a href="{self.prefix}results/{figure["timelines"]}">{figure["timelines"]}</a></p>' if there else '<p class="soft">not drawn</p>')
        known = [name for name in figure.get("ratios", []) if self.value(name)]
        absent = [name for name in figure.get("ratios", []) if name not in known]
        if known:
            self.add('<div class="wide"><table class="ratios">', "<tr><th>ratio</th><th>Heddle / peer [95 % interval]</th><th>measured</th></tr>")
            self.add(*(self.ratio(name) for name in known), "</table></div>")
        if absent:
            self.add('<p class="soft">not measured: ' + ", ".join(f"<code>{escape(name)}</code>" for name in absent) + "</p>")
        if "command" in figure:
            self.add(f"<p><code>{escape(figure['command'])}</code></p>")
        if "limits" in figure:
            self.add(f"<p class=\"soft\">{escape(figure['limits'])}</p>")
        self.add("</section>")

    def ratio(self, name):
        value = self.value(name)
        text = recorded.formatted(value, ["spread"] if recorded.interval(value) != (None, None) else [])
        return f'<tr><td><code>{escape(name)}</code></td><td class="number">{escape(text)}</td><td>{self.results.measured[name][:10]}</td></tr>'

    def growth(self, entries, model):
        self.add("<h2 id=\"growth\">What two cores cannot say</h2>")
        self.add(
            "<p>A curve over cores bends where cores write to the same memory, wait for the same lock, or are called together. Two cores show no bend, but what would "
            "bend it can be counted: what a request or a task writes that another core may write, too. Where that is nothing, the cost of a request does not depend "
            "on the number of cores, and throughput grows with them until memory or the network is full.</p>"
        )
        self.add('<div class="wide"><table>', "<tr><th>counted</th><th>value</th><th>what follows</th></tr>")
        command = None
        for entry in entries:
            if entry["command"] != command:
                command = entry["command"]
                self.add(f'<tr><td colspan="3"><code>{escape(command)}</code></td></tr>')
            self.add(f"<tr><td>{escape(entry['what'])}</td><td class=\"number\">{escape(self.text(entry['result']))}</td><td>{escape(entry['says'])}</td></tr>")
        self.add("</table></div>")
        self.model(model)

    def model(self, model):
        """Throughput by cores, if each core adds as many waits as the second does."""
        self.add('<section class="figure">', f"<h3>{escape(model['title'])}</h3>", f"<p>{escape(model['text'])}</p>")
        wake, lines, rows = self.numbers(model["wake"])[0], [], []
        for server in model["server"]:
            cost, waits = self.numbers(server["cost"])[0], self.numbers(server["waits"])[0]
            limit, points = "", []
            if None not in (wake, cost, waits):
                request, together = cost * 1e-6, waits * wake * 1e-9
                points = [(cores, cores / (request + (cores - 1) * together), None, None) for cores in model["cores"]]
                limit = f"{1 / together:,.0f}" if together > 0 else "no limit"
            rows.append((server["name"], self.text(server["cost"]), self.text(server["waits"]), limit))
            lines.append((server["name"], points, True))
        lines += [(one["name"], [(*point, None, None) for point in one["given"]], True) for one in model.get("given", [])]
        self.add(plot.curve("cores", "requests/s", lines, True))
        self.add('<div class="wide"><table>', "<tr><th>server</th><th>µs a request, one core</th><th>waits a request, two cores</th><th>requests/s that no number of cores exceeds</th></tr>")
        for name, *cells in rows:
            self.add(f"<tr><td>{escape(name)}</td>" + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells) + "</tr>")
        self.add("</table></div>", f"<p class=\"soft\">Waking a thread that sleeps on another core: {escape(self.text(model['wake']))} ns.</p>")
        self.add(f"<p><code>{escape(model['command'])}</code></p>", f"<p class=\"soft\">{escape(model['limits'])}</p>", "</section>")

    def runs(self):
        self.add('<h2 id="runs">Machines and versions</h2>', '<div class="wide"><table>', "<tr><th>suite</th><th>run</th><th>machine and kernel</th><th>commit</th><th>compilers</th></tr>")
        for suite in [name for name in recorded.SUITES if name in self.results.suites]:
            for date, run in sorted(self.results.suites[suite]["runs"].items()):
                versions = {**(run.get("compilers") or {}), **(run.get("versions") or {})}
                named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
                cells = [escape(cell) for cell in (suite, date[:16].replace("T", " "), run["machine"], run.get("commit") or "")]
                # Lists of a hundred packages, which few want to see.
                cells.append(f"<details><summary>{len([v for v in versions.values() if v])} versions</summary>{escape(named)}</details>")
                self.add("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        self.add("</table></div>", '<p class="soft">Every sample of every contender is in the JSON files beside this page. Suites without a row have no recorded run.</p>')

    def render(self, seeds):
        figures = seeds["figure"]
        links = "".join(f'<a href="#{one["id"]}">{escape(one["title"].split(":")[0])}</a>' for one in seeds["document"])
        self.add(f'<nav>{links}<a href="#growth">What two cores cannot say</a><a href="#runs">Machines</a></nav>')
        for document in seeds["document"]:
            self.add(f'<h2 id="{document["id"]}">{escape(document["title"])}</h2>')
            self.add(f'<dl><dt>their machine</dt><dd>{escape(document["machine"])}</dd><dt>part by part</dt><dd><a href="{self.prefix}{document["page"]}">{document["page"]}</a></dd></dl>')
            self.add(f'<p>{escape(document["limits"])}</p>')
            if "unmeasured" in document:
                self.add(f'<p class="soft">{escape(document["unmeasured"])}</p>')
            for figure in figures:
                if figure["document"] == document["id"]:
                    self.figure(figure)
        self.growth(seeds["growth"], seeds["model"])
        self.runs()
        return "\n".join(self.lines) + "\n</body>\n</html>\n"


def load():
    with open(SEEDS, "rb") as file:
        return tomllib.load(file)


def page(results, prefix="../"):
    return Page(results, prefix).render(load())


def main():
    if len(sys.argv) > 3 or sys.argv[1:2] == ["--help"]:
        print(__doc__)
        sys.exit(sys.argv[1:2] != ["--help"])
    folder = os.path.abspath(sys.argv[1]) if sys.argv[1:] else os.path.join(recorded.ROOT, recorded.RESULTS)
    target = os.path.abspath(sys.argv[2]) if sys.argv[2:] else os.path.join(folder, "index.html")
    os.chdir(recorded.ROOT)
    try:
        results = recorded.Results(folder)
    except recorded.Wrong as reason:
        sys.exit(f"results_page: {reason}")
    text = page(results, os.path.relpath("docs", os.path.dirname(target)) + "/")
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"results: {target}")


if __name__ == "__main__":
    main()
