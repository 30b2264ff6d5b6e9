#!/usr/bin/env python3
"""Writes the benchmarks' results into the documents, from docs/results/*.json; docs/results/README.md has all of them, and
docs/results/index.html those that answer figures of the documents behind Heddle (results_page.py).

usage: results.py [--check]

With --check, nothing is written; a number that differs from its result is a failure, and so is a ratio that is typed
by hand. In Markdown a result is written in one of two ways:

  `hop/conduit` 0.37                                  a result's name in backquotes, and its estimate
  <!--=fixed-64/c-twin spread-->1.05 [0.99, 1.34]<!--/-->   where the name would be in the way

The words behind the name are `spread` for the estimate with its 95 % interval, `range` for the least and the greatest sample,
`/1000` for a thousandth, `.1f` or another format of Python's. `<!--=io date-->` and `<!--=io machine-->` say when and where a suite was measured.

Estimates and intervals are those of heddle-measure, as the benchmarks record them. Where a file has samples without them, they
are added to it, by bench/build/bench-statistics (`make bench-programs`).
"""
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join("docs", "results")
INDEX = os.path.join(RESULTS, "README.md")
PAGE = os.path.join(RESULTS, "index.html")
SUITES = ("io", "serve", "wai", "tls", "h2", "gateways", "operate", "trace", "openflow", "par", "find", "coroutine", "rendezvous", "mpi", "bytes", "growth", "measure")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
MARKED = re.compile(r"<!--=(.*?)-->(.*?)<!--/-->")
NAMED = re.compile(r"`([^`\s]+)` (-?\d[\d,]*(?:\.\d+)?)( \[[^]]*\])?(?![\d.]*\d)")
# A ratio with its spread, or as a factor.
TYPED = re.compile(r"\d\.\d+ \[\d+\.\d+, \d+\.\d+\]|\b\d+\.\d+x\b")
ABOUT = "the commands are in [performance.md](../performance.md#measuring)"


class Wrong(Exception):
    """A marker that cannot be filled."""


class Results:
    """Every result by its name, and the runs that they come from."""

    def __init__(self, folder=RESULTS):
        self.suites, self.values, self.measured = {}, {}, {}
        for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            suite = document["suite"]
            self.suites[suite] = document
            for case in document["cases"]:
                for value in case["values"]:
                    if value["name"] in self.values:
                        raise Wrong(f"{path}: {value['name']} is there twice")
                    self.values[value["name"]] = value
                    self.measured[value["name"]] = case["run"]

    def fill(self, marker):
        name, *words = marker.split()
        if name in self.suites and words in (["date"], ["machine"]):
            return provenance(self.suites[name], words[0])
        if name not in self.values:
            raise Wrong(f"there is no result {name}; docs/results/README.md has all names")
        return formatted(self.values[name], words)


def provenance(suite, what):
    """The days of its runs, first and last; or the machines."""
    if what == "machine":
        return "; ".join(sorted({run["machine"] for run in suite["runs"].values()}))
    days = sorted(date[:10] for date in suite["runs"])
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def middle(value):
    """The estimate; of a single sample itself."""
    return value.get("estimate", value["median"])


def interval(value):
    """The bounds of its 95 % interval, or of the samples until that is added to the file; of a single sample none."""
    if len(value["samples"]) < 2:
        return None, None
    return value.get("lower", value["least"]), value.get("upper", value["most"])


def formatted(value, words=()):
    """The estimate; with `spread` and its interval, with `range` the least and the greatest sample."""
    scale, form, shape = 1, None, None
    for word in words:
        if word in ("spread", "range"):
            shape = word
        elif word.startswith("/"):
            scale = float(word[1:])
        else:
            form = word
    number = middle(value) / scale
    write = lambda n: format(n, form) if form else plain(n, number, value)
    low, high = (value["least"], value["most"]) if shape == "range" else interval(value)
    if shape == "range":
        return f"{write(low / scale)} to {write(high / scale)}"
    return f"{write(number)} [{write(low / scale)}, {write(high / scale)}]" if shape and low is not None else write(number)


def plain(number, whole, value):
    """Ratios with two digits behind the point; small ones, and everything else, with two or three that count."""
    ratio = value["unit"] == "ratio"
    if ratio and whole >= 0.1:
        return f"{number:.2f}"
    if abs(number) >= 1000 or number == round(number):
        return f"{number:,.0f}"
    text = f"{number:{'#' if ratio else ''}.{2 if ratio else 3}g}"
    return text if "e" not in text else f"{number:.10f}".rstrip("0")


def pages():
    listing = subprocess.run(["git", "ls-files", "-z", "*.md"], capture_output=True, text=True, check=True).stdout
    return [path for path in listing.split("\0") if path and path != INDEX and os.path.exists(path)]


def filled(results, path, text, complaints):
    """The page with its results; complaints about what cannot be filled, or is typed."""
    fence, lines = None, []
    history = path in ("CHANGELOG.md", "STYLE.md") or not path.startswith(("docs/", "README"))
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        match = FENCE.match(line)
        if fence is None and not match:
            try:
                line = MARKED.sub(lambda found: f"<!--={found[1]}-->{results.fill(found[1])}<!--/-->", line)
                line = NAMED.sub(lambda found: named(results, found), line)
            except Wrong as reason:
                complaints.append(f"{path}:{number}: {reason}")
            typed = None if history else TYPED.search(MARKED.sub("", NAMED.sub("", line)))
            if typed:
                complaints.append(f"{path}:{number}: {typed[0]} is typed by hand; name its result (scripts/results.py)")
        elif fence is None:
            fence = match[1]
        elif match and match[1].startswith(fence):
            fence = None
        lines.append(line)
    return "".join(lines)


def named(results, found):
    if found[1] not in results.values:
        return found[0]
    return f"`{found[1]}` {formatted(results.values[found[1]], ['spread'] if found[3] else [])}"


def index(results):
    """A page with all ratios and figures; what each contender needed is in the files."""
    lines = [
        "# Results",
        "",
        "The last results of every benchmark. `scripts/results.py` writes this page from the files beside it, which also have",
        "every sample of every contender, as `CASE:CONTENDER:QUANTITY`. A ratio is Heddle's cost divided by the peer's in the same",
        f"round: the estimate from all rounds, and its 95 % interval in brackets; {ABOUT}.",
    ]
    for suite in [name for name in SUITES if name in results.suites] + sorted(set(results.suites) - set(SUITES)):
        document = results.suites[suite]
        lines += ["", f"## {suite}", ""]
        for number, (date, run) in enumerate(sorted(document["runs"].items()), 1):
            commit = f"commit {run['commit']}" if run.get("commit") else "commit not recorded"
            lines.append(f"{number}. {date[:10]}: {run['machine']}; {commit}" + (f"; {run['source']}" if run.get("source") else ""))
        numbers = {date: number for number, date in enumerate(sorted(document["runs"]), 1)}
        lines += ["", "| Case | Result | Value | Run |", "|---|---|---|---|"]
        for case in document["cases"]:
            title = f"{case['case']}: {case['title']}"
            for value in case["values"]:
                if ":" not in value["name"]:
                    unit = "" if value["unit"] == "ratio" else f" {value['unit']}"
                    text = formatted(value, ["spread"])
                    lines.append(f"| {title} | `{value['name']}` | {text}{unit} | {numbers[case['run']]} |")
                    title = ""
    return "\n".join(lines) + "\n"


def complete(folder=RESULTS):
    """Adds estimates and intervals to files that have samples without them."""
    sys.path.append(os.path.join(ROOT, "bench"))
    import harness

    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        bare = [value for case in document["cases"] for value in case["values"] if len(value["samples"]) > 1 and "estimate" not in value]
        try:
            for value in bare:
                value.update(harness.described(value["samples"], value["unit"]))
        except harness.Unable as reason:
            raise Wrong(f"{path}: {reason}") from None
        if bare:
            harness.write_results(path, document)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        sys.exit(sys.argv[1:] != ["--help"])
    os.chdir(ROOT)
    complaints, changed = [], []
    try:
        if not sys.argv[1:]:
            complete()
        results = Results()
    except Wrong as reason:
        sys.exit(f"results: {reason}")
    # Not above: it imports this module.
    import results_page

    missing, notes = results_page.missing(results, results_page.load())
    complaints += missing
    if notes:
        print(f"{results_page.SEEDS}: not recorded yet: {', '.join(notes)}")
    for path in pages() + [INDEX, PAGE]:
        before = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if path == INDEX:
            after = index(results)
        elif path == PAGE:
            after = results_page.page(results)
        else:
            after = filled(results, path, before, complaints)
        if after != before:
            changed.append(path)
            complaints += [f"{path}: {line}" for line in differing(before, after)] if sys.argv[1:] else []
            if not sys.argv[1:]:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(after)
    for complaint in complaints:
        print(complaint)
    if complaints:
        sys.exit("check-results: correct the names above; `make results` writes the numbers")
    print(f"check-results: ok, {len(results.values)} results" if sys.argv[1:] else f"results: wrote {', '.join(changed) or 'nothing'}")


def differing(before, after):
    old, new = before.splitlines(), after.splitlines()
    stale = [f"line {number} is stale" for number, (one, other) in enumerate(zip(old, new), 1) if one != other]
    return stale[:3] or ["stale"]


if __name__ == "__main__":
    main()
