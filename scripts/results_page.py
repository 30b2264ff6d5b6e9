#!/usr/bin/env python3
"""Makes the page that re-measures the figures and tables of the documents behind Heddle, from raw results.

usage: results_page.py [FOLDER [PAGE]]

FOLDER has the results, as `bench/run.py --keep` writes them (docs/results); PAGE is written (FOLDER/index.html). What is
compared with what stands in docs/results/seeds.toml. The page needs no other file and no network; results that were not
measured are said to be missing.
"""
import html
import math
import os
import re
import sys
import tomllib

import results as recorded

SEEDS = os.path.join("docs", "results", "seeds.toml")
WIDTH = 640
COLOURS = 7

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Heddle: the documents, measured again</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --line: #d5dae1; --back: #fff; --card: #f6f7f9;
  --c0: #0b62c4; --c1: #c2410c; --c2: #15803d; --c3: #7e22ce; --c4: #a16207; --c5: #64748b; --c6: #94a3b8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39414d; --back: #14171c; --card: #1c2128;
    --c0: #5aa9ff; --c1: #fb923c; --c2: #4ade80; --c3: #c084fc; --c4: #facc15; --c5: #94a3b8; --c6: #64748b } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 48rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem } h3 { font-size: 1rem; margin: 0 }
p { margin: .4rem 0 } .soft { color: var(--soft); font-size: .9rem }
section.figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 }
td, th { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code { font-size: .85rem; overflow-wrap: anywhere }
svg { width: 100%; max-width: 40rem; height: auto; display: block; margin: .5rem 0 }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif } svg .soft { fill: var(--soft) }
svg .axis { stroke: var(--line); fill: none }
nav a { margin-right: 1rem } a { color: var(--c0) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .5rem 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0 }
</style>
</head>
<body>
<h1>The documents, measured again</h1>
<p>For every figure and table of the documents that describe Heddle's systems: their number, ours, the peer's, and the command
that measures it. A ratio is Heddle's cost divided by the peer's, so below 1 Heddle needs less. It is the median of the rounds of one
run, in which all contenders took turns, with the least and the greatest; of five rounds or more these two enclose the median of all
rounds with a probability of 94 % or more.</p>
"""


def escape(text):
    return html.escape(str(text), quote=True)


class Page:
    """The results, and the lines of the page so far."""

    def __init__(self, results):
        self.results, self.lines = results, [HEAD]

    def value(self, name):
        return self.results.values.get(name)

    def add(self, *lines):
        self.lines += lines

    # ------------------------------------------------------------------------------------ plots

    def bars(self, unit, rows, log=False):
        """A bar for each contender, with a line from the least to the greatest sample."""
        known = [(label, self.value(name)) for label, name in rows]
        known = [(label, value) for label, value in known if value]
        if not known:
            return '<p class="soft">not measured</p>'
        left, right, height, top = 150, 90, 26, 22
        most = max(value["most"] or value["median"] for _, value in known)
        least = min(value["least"] or value["median"] for _, value in known)
        floor = 10 ** math.floor(math.log10(least)) if log else 0
        scale = (math.log10(most / floor) if log else most) or 1
        room = WIDTH - left - right
        place = lambda number: left + room * (math.log10(max(number, floor) / floor) if log else number) / scale
        total = top + height * len(known) + 6
        parts = [f'<svg viewBox="0 0 {WIDTH} {total}" role="img" aria-label="{escape(unit)}">']
        parts.append(f'<text class="soft" x="{left}" y="14">{escape(unit)}{", logarithmic" if log else ""}</text>')
        for number, (label, value) in enumerate(known):
            y = top + height * number
            end = place(value["median"])
            parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>')
            colour = "var(--c0)" if number == self.own(known) else "var(--c6)"
            parts.append(f'<rect x="{left}" y="{y + 3}" width="{max(end - left, 1):.1f}" height="{height - 8}" rx="2" style="fill:{colour}"/>')
            last = end
            if value["least"] is not None:
                low, last = place(value["least"]), max(end, place(value["most"]))
                parts.append(f'<path d="M{low:.1f} {y + 12}H{last:.1f}" style="stroke:var(--ink);stroke-width:1.5"/>')
            parts.append(f'<text x="{last + 6:.1f}" y="{y + 15}">{recorded.formatted(value)}</text>')
        return "\n".join(parts + ["</svg>"])

    @staticmethod
    def own(known):
        """Heddle's bar: the first whose label says so, or the first."""
        return next((number for number, (label, _) in enumerate(known) if "eddle" in label), 0)

    def curve(self, x, y, series):
        """Lines over the places of x, both axes logarithmic: the ratios are what is compared."""
        lines = []
        for one in series:
            if "given" in one:
                points = [(place, number, None, None) for place, number in one["given"]]
            else:
                scale = one.get("scale", 1)
                values = [(place, self.value(one["of"].replace("{x}", str(place)))) for place in one["xs"]]
                points = [(place, v["median"] * scale, v["least"] and v["least"] * scale, v["most"] and v["most"] * scale) for place, v in values if v]
            if points:
                lines.append((one["name"], points, "given" in one))
        if not lines:
            return '<p class="soft">not measured</p>'
        left, right, top, bottom, height = 56, 12, 14, 40, 300
        numbers = [point[1] for _, points, _ in lines for point in points]
        places = sorted({point[0] for _, points, _ in lines for point in points})
        low, high = 10 ** math.floor(math.log10(min(numbers))), 10 ** math.ceil(math.log10(max(numbers)))
        first, last = math.log(places[0]), math.log(places[-1])
        across = lambda place: left + (WIDTH - left - right) * (math.log(place) - first) / ((last - first) or 1)
        up = lambda number: top + (height - top - bottom) * (1 - math.log(number / low) / math.log(high / low))
        parts = [f'<svg viewBox="0 0 {WIDTH} {height + 18 * len(lines)}" role="img" aria-label="{escape(y)} by {escape(x)}">']
        tick = low
        while tick <= high * 1.001:
            parts.append(f'<path class="axis" d="M{left} {up(tick):.1f}H{WIDTH - right}"/>')
            parts.append(f'<text class="soft" x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>')
            tick *= 10
        shown = -99
        for place in places:
            parts.append(f'<path class="axis" d="M{across(place):.1f} {top}V{height - bottom}"/>')
            if across(place) - shown > 26:
                shown = across(place)
                parts.append(f'<text class="soft" x="{shown:.1f}" y="{height - bottom + 16}" text-anchor="middle">{place}</text>')
        parts.append(f'<text class="soft" x="{WIDTH - right}" y="{height - bottom + 32}" text-anchor="end">{escape(x)}</text>')
        parts.append(f'<text class="soft" x="{left + 4}" y="{top - 2}">{escape(y)}</text>')
        for number, (name, points, given) in enumerate(lines):
            colour = f"var(--c{number % COLOURS})"
            dash = ";stroke-dasharray:5 4" if given else ""
            path = "L".join(f"{across(place):.1f} {up(middle):.1f}" for place, middle, _, _ in points)
            parts.append(f'<path d="M{path}" style="fill:none;stroke:{colour};stroke-width:2{dash}"/>')
            for place, middle, least, most in points:
                parts.append(f'<circle cx="{across(place):.1f}" cy="{up(middle):.1f}" r="2.5" style="fill:{colour}"><title>{escape(name)}, {place}: {middle:,.4g}</title></circle>')
                if least and most:
                    ends = (up(max(least, low)), up(min(most, high)))
                    parts.append(f'<path d="M{across(place):.1f} {ends[0]:.1f}V{ends[1]:.1f}" style="stroke:{colour}"/>')
            key = height + 18 * number
            parts.append(f'<path d="M{left} {key}h22" style="stroke:{colour};stroke-width:2{dash}"/><text x="{left + 30}" y="{key + 4}">{escape(name)}</text>')
        return "\n".join(parts + ["</svg>"])

    # ---------------------------------------------------------------------------------- the page

    def figure(self, figure, prefix):
        self.add('<section class="figure">', f"<h3>{escape(figure['item'])}: {escape(figure['title'])}</h3>")
        self.add(f"<p class=\"soft\">The document: {escape(figure['paper'])}</p>")
        if "bars" in figure:
            for panel in [figure["bars"], *figure.get("more", [])]:
                self.add(self.bars(panel["unit"], panel["rows"], panel.get("log", False)))
        if "curve" in figure:
            self.add(self.curve(figure["curve"]["x"], figure["curve"]["y"], figure["curve"]["series"]))
        if "timelines" in figure:
            there = os.path.exists(os.path.join("docs", "results", figure["timelines"]))
            self.add(f'<p><a href="{prefix}results/{figure["timelines"]}">{figure["timelines"]}</a></p>' if there else '<p class="soft">not drawn</p>')
        if figure.get("ratios"):
            self.add("<table>", "<tr><th>result</th><th>Heddle / peer, median [least, most]</th><th>measured</th></tr>")
            for name in figure["ratios"]:
                self.add(self.ratio(name))
            self.add("</table>")
        self.add(f"<p><code>{escape(figure['command'])}</code></p>")
        if "limits" in figure:
            self.add(f"<p class=\"soft\">{escape(figure['limits'])}</p>")
        self.add("</section>")

    def ratio(self, name):
        value = self.value(name)
        if value is None:
            return f'<tr><td><code>{escape(name)}</code></td><td class="number">not measured</td><td></td></tr>'
        spread = value["samples"] is None or len(value["samples"]) > 1
        text = recorded.formatted(value, ["spread"] if spread else [])
        return f'<tr><td><code>{escape(name)}</code></td><td class="number">{escape(text)}</td><td>{self.results.measured[name][:10]}</td></tr>'

    def growth(self, entries):
        self.add("<h2 id=\"growth\">What two cores cannot say</h2>")
        self.add(
            "<p>A curve over cores bends where cores write to the same memory, wait for the same lock, or are called together. Two cores show no bend, but what would "
            "bend it can be counted: what a request or a task writes that another core writes, too. Where that is nothing, the cost of a request does not depend "
            "on the number of cores, and throughput grows with them until memory or the network is full. That is a model, and no measurement of a larger machine.</p>"
        )
        self.add("<table>", "<tr><th>counted</th><th>value</th><th>what follows</th></tr>")
        for entry in entries:
            value = self.value(entry["result"])
            text = recorded.formatted(value) if value else "not measured"
            self.add(f"<tr><td>{escape(entry['what'])}</td><td class=\"number\">{text}</td><td>{escape(entry['says'])}</td></tr>")
        self.add("</table>")

    def runs(self):
        self.add('<h2 id="runs">Machines and versions</h2>', "<table>", "<tr><th>suite</th><th>run</th><th>machine</th><th>commit</th><th>compilers</th></tr>")
        for suite in [name for name in recorded.SUITES if name in self.results.suites]:
            for date, run in sorted(self.results.suites[suite]["runs"].items()):
                compilers = ", ".join(f"{name} {version}" for name, version in (run.get("compilers") or {}).items() if version)
                cells = (suite, date[:16].replace("T", " "), run["machine"], run.get("commit") or "", compilers)
                self.add("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        self.add("</table>", '<p class="soft">Every sample of every contender is in the JSON files beside this page.</p>')

    def render(self, seeds, prefix):
        figures = seeds["figure"]
        links = "".join(f'<a href="#{one["id"]}">{escape(one["title"].split(":")[0])}</a>' for one in seeds["document"])
        self.add(f'<nav>{links}<a href="#growth">What two cores cannot say</a><a href="#runs">Machines</a></nav>')
        for document in seeds["document"]:
            self.add(f'<h2 id="{document["id"]}">{escape(document["title"])}</h2>')
            self.add(f'<dl><dt>their machine</dt><dd>{escape(document["machine"])}</dd><dt>part by part</dt><dd><a href="{prefix}{document["page"]}">{document["page"]}</a></dd></dl>')
            self.add(f'<p>{escape(document["limits"])}</p>')
            for figure in figures:
                if figure["document"] == document["id"]:
                    self.figure(figure, prefix)
        self.growth(seeds["growth"])
        self.runs()
        return "\n".join(self.lines) + "\n</body>\n</html>\n"


def names(seeds):
    """Every result that the page refers to, for the check that they exist."""
    for figure in seeds["figure"]:
        yield from figure.get("ratios", [])
        for panel in ([figure["bars"]] if "bars" in figure else []) + figure.get("more", []):
            yield from (name for _, name in panel["rows"])
        for one in figure.get("curve", {}).get("series", []):
            yield from (re.sub(r"\{x\}", str(place), one["of"]) for place in one.get("xs", []))
    yield from (entry["result"] for entry in seeds["growth"])


def load():
    with open(SEEDS, "rb") as file:
        return tomllib.load(file)


def page(results, prefix="../"):
    return Page(results).render(load(), prefix)


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
