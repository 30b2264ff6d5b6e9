#!/usr/bin/env python3
"""Builds and tests what differs from a commit and what depends on it, without optimisation, in a build folder of its own.

usage: quick.py [--base COMMIT] [--minutes N] [--jobs N] [--suite SUITE] [--pattern P] [--options TEXT] FOLDER

Compares the checkout with the commit where it left --base (origin/main): commits, staged and other changes, new files. Of a
changed package it builds the components that the files belong to; of the others those that stand on them, by the cabal files.

The suites of changed components always run, whole. The other affected suites are all built; those that run are the direct
dependants' before the others, the shortest first, as long as the sum of their usual times is within --minutes (2). The end says
which did not run. FOLDER/seconds.json keeps the times.

With --suite it builds and runs that suite alone, whatever has changed.
"""
import argparse
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import time

import packages
import test

# What a change outside the packages asks for; the first match counts. None: everything is built again.
OUTSIDE = [
    (r"cabal\.project(\.debian)?$", None),
    (r"test-support/sanitize/", "make check-sanitize"),
    (r"(docs/results/|scripts/results)", "make check-results"),
    (r"(.*\.md|docs/.*|examples/site/.*)$", "make check-links check-pages check-site"),
    (r"\.hlint\.yaml$", "make check-lint"),
    (r"(scripts/.*\.py|Makefile)$", "make check-scripts"),
    (r"scripts/setup\.sh$", "make setup"),
    (r"packaging/", "make test-deb"),
    (r"bench/", "make bench-quick"),
    (r"(\.ci/|scripts/)", ".ci/run"),
]
# Files in a package's folder that nothing is compiled from.
PROSE = re.compile(r"(\.md|/LICENSE|/CHANGELOG)$")
# What a suite is expected to take that has not run yet, in seconds.
UNKNOWN = 15
# A suite that takes longer is ended and has failed, in seconds.
LIMIT = 20 * 60

Component = collections.namedtuple("Component", "package kind name")


def target(component):
    """The component as cabal names it."""
    return f"{component.package}:{packages.KINDS[component.kind]}:{component.name}"


class Graph:
    """The components of all packages, and what each stands on."""

    def __init__(self, found):
        self.packages = found
        self.fields = {}
        for package in found.values():
            for kind, name, fields in package.components:
                self.fields[Component(package.name, kind, name or package.name)] = fields
        self.below = {component: self.stands_on(component) for component in self.fields}

    def stands_on(self, component):
        names = []
        for part in self.fields[component].get("build-depends", "").split(","):
            word = re.split(r"[\s<>=^]", part.strip())[0]
            package, _, library = word.partition(":")
            # A library inside the package may be named without it.
            names += [(package, name) for name in re.findall(r"[\w-]+", library)] or [(package, package), (component.package, package)]
        tools = [part.strip().partition(":") for part in self.fields[component].get("build-tool-depends", "").split(",")]
        wanted = {Component(package, "library", name) for package, name in names}
        wanted |= {Component(package, "executable", re.split(r"[\s<>=^]", tool)[0]) for package, _, tool in tools}
        return (wanted & set(self.fields)) - {component}

    def owners(self, path):
        """The components that a file belongs to: none for prose, None for a file outside the packages."""
        inside = [p for p in self.packages.values() if path.startswith(p.directory + "/")]
        if not inside:
            return None
        package = max(inside, key=lambda p: len(p.directory))
        own = [c for c in self.fields if c.package == package.name]
        if PROSE.search(path):
            return set()
        rest = path[len(package.directory) + 1:]
        below = {c: [d for d in self.folders(c) if d == "." or rest.startswith(d + "/")] for c in own}
        deepest = max((len(d) for ds in below.values() for d in ds if d != "."), default=0)
        holding = {c for c in own if any(len(d) == deepest for d in below[c] if deepest and d != ".")}
        # Programs that share a folder have a main module each.
        mains = {c for c in holding for d in below[c] if self.fields[c].get("main-is") == rest[len(d) + 1:]}
        if not holding and package.directory in ("bench", "examples") and not rest.endswith((".cabal", ".hs", ".c", ".h")):
            return None
        return mains or holding or set(own)

    def folders(self, component):
        return [os.path.normpath(word) for word in packages.words(self.fields[component].get("hs-source-dirs", "."))]

    def above(self, changed):
        """All components that stand on these, with these, each with the number of its steps from them."""
        steps, new = {component: 0 for component in changed}, set(changed)
        while new:
            new = {c for c, below in self.below.items() if c not in steps and below & new}
            distance = 1 + max(steps.values(), default=0)
            steps.update({component: distance for component in new})
        return steps


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quick: git {' '.join(arguments)}: {done.stderr.strip()}\n  name a commit to compare with: make quick BASE=HEAD~1")
    return done.stdout


def changes(base):
    """The files that differ from the commit where the checkout left the base."""
    left = git("merge-base", base, "HEAD").strip()
    differing = git("diff", "--name-only", "--no-renames", "-z", left).split("\0")
    new = git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted({path for path in differing + new if path})


def project_file(text):
    """A project file as the given one, without optimisation. The last flag counts, and the cabal files ask for -O2, after which come
    only the program's options; with those, cabal ignores the ghc-options of a package stanza. Modules that ask for -O2 themselves
    need what they inline, also of a module that is not compiled again, which -O0 would not read."""
    plain = re.sub(r"(?m)^( *)optimization: .*$", r"\1optimization: False", text)
    plain, found = re.subn(r"(?m)^(program-options\n  ghc-options: .*)$", r"\1 -O0 -fno-ignore-interface-pragmas", plain)
    if found != 1:
        raise ValueError("cabal.project.debian has no program-options for ghc, to which -O0 is appended")
    return "-- Written by scripts/quick.py.\n" + plain


def write_project(folder):
    os.makedirs(folder, exist_ok=True)
    with open("cabal.project.debian", encoding="utf-8") as file:
        text = project_file(file.read())
    path = os.path.join(folder, "cabal.project")
    # Left as it is where it says the same, or cabal would plan again.
    if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


class Steps:
    """What has been done, how long each step took, and what came of it."""

    def __init__(self, folder, jobs, options):
        self.folder, self.jobs, self.options = folder, jobs, options
        self.took, self.suites, self.failures = [], [], []

    def build(self, what, components):
        """Builds the components; whether all could be."""
        began = time.monotonic()
        command = ["cabal", "build", f"--project-file={self.folder}/cabal.project", f"--builddir={os.path.abspath(self.folder)}",
                   f"-j{self.jobs}", *sorted(map(target, components))]
        log = os.path.join(self.folder, "build.log")
        lines = []
        # As in the Makefile: two that build in one folder wait for each other.
        alone = ["flock", f"{self.folder}/cabal.project", *command, "-v1", "--keep-going"]
        with subprocess.Popen(alone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as running, \
                open(log, "w", encoding="utf-8") as file:
            for line in running.stdout:
                print(line, end="", flush=True)
                file.write(line)
                lines.append(line.rstrip())
        if running.returncode != 0:
            self.failures += [f"Building {what} failed; all that was said is in {log}:", *complaints(lines)[:14], f"  again: {shlex.join(command)[:300]}"]
        self.took.append((f"build {what}", time.monotonic() - began))
        return running.returncode == 0

    def test(self, what, names):
        """Runs suites that have been built, and keeps how long they took."""
        if not names:
            return
        began = time.monotonic()
        suites = test.planned(self.folder, names)
        test.run(suites, self.options, min(2, len(os.sched_getaffinity(0))), LIMIT, os.path.join(self.folder, "test-logs"))
        self.suites += suites
        self.took.append((f"test {what}", time.monotonic() - began))
        if not self.options:
            seconds = {**usual(self.folder), **{suite.name: round(suite.seconds, 1) for suite in suites}}
            with open(os.path.join(self.folder, "seconds.json"), "w", encoding="utf-8") as file:
                json.dump(seconds, file, indent=1, sort_keys=True)

    def end(self, pattern, left):
        """Prints the summary, what was left out, and what failed last; the exit code."""
        tested = 0
        if self.suites:
            tested = test.summarise(self.suites, sum(s.seconds for s in self.suites), pattern, "make quick")
        if left:
            print("Built, but not run, since it would take longer; all of it is what make test runs:")
            print("\n".join(f"  make quick SUITE={test.short(suite)}" for suite in left[:8]) + f"\n  … and {len(left) - 8} more" * (len(left) > 8))
        print("\n".join(self.failures + [f"{what}: {seconds:.0f} s" for what, seconds in self.took]))
        failed = tested or bool(self.failures)
        print(f"quick: {'FAILED' if failed else 'passed'}, without optimisation, in {sum(s for _, s in self.took):.0f} s")
        return int(failed)


def complaints(lines):
    """The lines of compiler and cabal that say what is wrong."""
    said, telling = [], 0
    for line in lines:
        if re.search(r"\berror:|^(cabal|Error):|: error\b", line):
            telling = 5
        if telling and line.strip():
            said.append("  " + line[:200])
            telling -= 1
    return said or ["  " + line[:200] for line in lines[-8:]]


def usual(folder):
    path = os.path.join(folder, "seconds.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def expected(name, seconds):
    return seconds.get(name, test.LONG.get(name, UNKNOWN))


def chosen(suites, steps, seconds, most):
    """Of the dependants' suites those that run, in their order, and those that do not."""
    runs, left = [], []
    for suite in sorted(suites, key=lambda s: (steps[s] > 2, expected(s.name, seconds), s.name)):
        fits = expected(suite.name, seconds) <= most
        most -= expected(suite.name, seconds) if fits else 0
        (runs if fits else left).append(suite)
    return runs, left


def suite_named(graph, wanted):
    """The suite that SUITE= names."""
    for component in graph.fields:
        if component.kind == "test-suite" and wanted in (component.name, test.short(component.name)):
            return component
    sys.exit(f"quick: there is no suite {wanted}: {', '.join(sorted(test.short(c.name) for c in graph.fields if c.kind == 'test-suite'))}")


def sort_out(graph, paths):
    """Of changed files: the components they belong to, and what the others ask for, with those files."""
    changed, asked = set(), {}
    for path in paths:
        owners = graph.owners(path)
        if owners is None:
            owners = set()
            for pattern, what in OUTSIDE:
                if re.match(pattern, path):
                    asked.setdefault(what or "everything is built again", []).append(path)
                    owners = set() if what else set(graph.fields)
                    break
        elif not owners:
            asked.setdefault("make check-links check-pages", []).append(path)
        changed |= owners
    return changed, asked


def listed(components):
    """A line's worth of names."""
    names = sorted(components)
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def names_of(components):
    return [c.name for c in components if c.kind == "test-suite"]


def everything(given, graph, steps):
    """Builds and tests what has changed and what depends on it; the exit code."""
    paths = changes(given.base)
    changed, asked = sort_out(graph, paths)
    distance = graph.above(changed)
    # A change of a library is a change of what tests it.
    own_packages = {c.package for c in changed}
    own = {c for c in distance if c.package in own_packages and (c in changed or c.kind == "test-suite")}
    rest = set(distance) - own
    runs, left = chosen([c for c in rest if c.kind == "test-suite"], distance, usual(given.folder), given.minutes * 60)
    print(f"{len(paths)} files differ from {given.base}.")
    for what, others in sorted(asked.items()):
        print(f"  {what}, for {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else ""))
    print(f"  changed:      {listed(map(target, changed)) or 'no component'}")
    print(f"  stand on it:  {listed(map(target, rest)) or 'nothing'}")
    print(f"  tested:       {listed(names_of(own)) or 'nothing'}; then {listed(names_of(runs)) or 'nothing'}")
    print(f"  only built:   {listed(names_of(left)) or 'no suite'}", flush=True)
    if own and steps.build("what has changed", own):
        steps.test("what has changed", names_of(own))
        if rest:
            if steps.build("what stands on it", rest):
                steps.test("what stands on it", names_of(runs))
    return steps.end(None, names_of(left))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("--base", default="origin/main")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--jobs", default="")
    parser.add_argument("--suite")
    parser.add_argument("--pattern")
    parser.add_argument("--options", default="")
    parser.add_argument("folder")
    given = parser.parse_args()
    graph = Graph(packages.Project().packages)
    write_project(given.folder)
    options = (["-p", given.pattern] if given.pattern else []) + shlex.split(given.options)
    steps = Steps(given.folder, given.jobs, options)
    try:
        if not given.suite:
            sys.exit(everything(given, graph, steps))
        suite = suite_named(graph, given.suite)
        if steps.build(suite.name, {suite}):
            steps.test(suite.name, [suite.name])
        sys.exit(steps.end(given.pattern, []))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
