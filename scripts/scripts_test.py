#!/usr/bin/env python3
"""Tests of the scripts of the developer's loop: what a change affects, what is watched, what is stopped."""
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import packages
import quick
import stall
import watch

LOWER = """cabal-version: 3.0
name: lower
synopsis: below
common shared
  default-language: Haskell2010
library
  import: shared
  hs-source-dirs: src
  build-depends: base
  if flag(new)
    hs-source-dirs: newer
  else
    hs-source-dirs: older
test-suite lower-test
  main-is: Main.hs
  hs-source-dirs: test
  build-depends: base, helping >=0.1
"""
HELPING = """name: helping
synopsis: for tests
library
  hs-source-dirs: src
  build-depends: base
"""
UPPER = """name: upper
synopsis: above
library
  hs-source-dirs: src
  build-depends:
    , base   >=4
    , lower  >=0.1
library inner
  hs-source-dirs: inner
  build-depends: upper
executable upper-one
  main-is: One.hs
  hs-source-dirs: app
  build-depends: upper:inner
executable upper-two
  main-is: Two.hs
  hs-source-dirs: app
  build-depends: base
test-suite upper-test
  main-is: Main.hs
  hs-source-dirs: test
  build-tool-depends: upper:upper-one
"""


class InFolder(unittest.TestCase):
    """Tests in a folder of their own, which is a checkout."""

    def setUp(self):
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "a@example.org")
        self.git("config", "user.name", "a")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], check=True, capture_output=True)

    def write(self, path, text=""):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")


class Affected(InFolder):
    def setUp(self):
        super().setUp()
        for name, text in (("lower", LOWER), ("helping", HELPING), ("upper", UPPER)):
            self.write(f"room/{name}/{name}.cabal", text)
        self.graph = quick.Graph(packages.Project().packages)

    def affected(self, path):
        changed, _ = quick.sort_out(self.graph, [path])
        return {quick.target(c): steps for c, steps in self.graph.above(changed).items()}

    def test_library_reaches_what_stands_on_it(self):
        self.assertEqual(self.affected("room/lower/src/A.hs"), {
            "lower:lib:lower": 0, "upper:lib:upper": 1, "upper:lib:inner": 2, "upper:exe:upper-one": 3, "upper:test:upper-test": 4})

    def test_tests_reach_nothing_else(self):
        self.assertEqual(self.affected("room/lower/test/Main.hs"), {"lower:test:lower-test": 0})

    def test_what_tests_stand_on_reaches_no_library(self):
        self.assertEqual(set(self.affected("room/helping/src/A.hs")), {"helping:lib:helping", "lower:test:lower-test"})

    def test_main_modules_that_share_a_folder(self):
        self.assertEqual(set(self.affected("room/upper/app/Two.hs")), {"upper:exe:upper-two"})

    def test_module_that_programs_share(self):
        self.assertEqual(set(self.affected("room/upper/app/Both.hs")), {"upper:exe:upper-one", "upper:exe:upper-two", "upper:test:upper-test"})

    def test_folders_of_conditions_are_apart(self):
        for folder in ("src", "newer", "older"):
            self.assertIn("lower:lib:lower", self.affected(f"room/lower/{folder}/A.hs"))

    def test_other_files_of_a_package_reach_all_of_it(self):
        self.assertLessEqual({"lower:lib:lower", "lower:test:lower-test"}, set(self.affected("room/lower/lower.cabal")))

    def test_outside_says_what_to_run(self):
        for path, what in (("docs/a.md", "make check-links check-pages check-site"), ("room/lower/README.md", "make check-links check-pages"),
                           (".hlint.yaml", "make check-lint"), ("scripts/quick.py", "make check-scripts"), ("packaging/x", "make test-deb")):
            self.assertEqual(quick.sort_out(self.graph, [path]), (set(), {what: [path]}))

    def test_project_file_reaches_everything(self):
        self.assertEqual(set(self.affected("cabal.project.debian")), {quick.target(c) for c in self.graph.fields})


class Changes(InFolder):
    def test_all_kinds_but_not_what_the_base_has_got_since(self):
        for name in ("kept", "committed", "staged", "unstaged", "removed", "elsewhere"):
            self.write(name)
        self.write(".gitignore", "*.o\n")
        self.commit()
        self.git("checkout", "-q", "-b", "work")
        self.write("committed", "1")
        self.commit()
        self.git("checkout", "-q", "main")
        self.write("elsewhere", "1")
        self.commit()
        self.git("checkout", "-q", "work")
        self.write("staged", "1")
        self.git("add", "staged")
        self.write("unstaged", "1")
        os.remove("removed")
        self.write("new ä")
        self.write("new.o")
        self.assertEqual(quick.changes("main"), ["committed", "new ä", "removed", "staged", "unstaged"])

    def test_missing_base_is_said(self):
        self.write("a")
        self.commit()
        with self.assertRaisesRegex(SystemExit, "BASE="):
            quick.changes("origin/main")


class Choice(unittest.TestCase):
    def test_direct_dependants_first_the_shortest_first_and_only_what_fits(self):
        suites = [quick.Component("p", "test-suite", name) for name in ("near-long", "near-short", "far", "near-longest")]
        steps = dict(zip(suites, (2, 2, 4, 2)))
        seconds = {"near-long": 50, "near-short": 5, "far": 1, "near-longest": 100}
        runs, left = quick.chosen(suites, steps, seconds, 60)
        self.assertEqual([[c.name for c in part] for part in (runs, left)], [["near-short", "near-long", "far"], ["near-longest"]])

    def test_project_without_optimisation(self):
        text = "packages:\n  a\noptimization: 2\ntests: True\n\npackage a\n  optimization: 2\n\nprogram-options\n  ghc-options: +RTS -A8m -RTS\n"
        self.assertEqual(quick.project_file(text).partition("\n")[2], text.replace("optimization: 2", "optimization: False").replace("-RTS\n", "-RTS -O0 -fno-ignore-interface-pragmas\n"))
        with open("cabal.project.debian", encoding="utf-8") as file:
            self.assertIn(" -O0 -fno-ignore-interface-pragmas\n", quick.project_file(file.read()))

    def test_errors_are_found_among_what_is_said(self):
        lines = ["[1 of 2] Compiling A", "", "src/A.hs:3:1: error:", "    Variable not in scope: x", "  |", "[2 of 2] Compiling B"]
        self.assertEqual(quick.complaints(lines)[:2], ["  src/A.hs:3:1: error:", "      Variable not in scope: x"])


class Watching(InFolder):
    def setUp(self):
        super().setUp()
        self.write("src/A.hs")
        self.write("src/dist-x/B.hs")
        self.write(".gitignore", "*.swp\n")
        self.saves = watch.Saves(["src"])
        self.addCleanup(os.close, self.saves.descriptor)

    def test_a_save(self):
        self.write("src/A.hs", "1")
        self.assertEqual(self.saves.wait(), {"src/A.hs"})

    def test_a_save_by_renaming_beside_what_editors_keep(self):
        for name in (".A.hs.swp", ".#A.hs", "#A.hs#", "dist-x/B.hs"):
            self.write("src/" + name)
        self.write("src/4913")
        os.remove("src/4913")
        self.write("src/C.hs")
        os.rename("src/C.hs", "src/A.hs")
        self.assertEqual(self.saves.wait(), {"src/A.hs"})

    def test_a_new_folder(self):
        self.write("src/new/deep/D.hs")
        self.assertEqual(self.saves.wait(), {"src/new/deep/D.hs"})
        self.write("src/new/deep/E.hs")
        self.assertEqual(self.saves.wait(), {"src/new/deep/E.hs"})


class Stalling(unittest.TestCase):
    def setUp(self):
        self.tree = stall.Tree()
        self.addCleanup(self.tree.end)

    def states(self):
        return sorted(state for _, state in self.tree.members())

    def until(self, wanted):
        # Without a limit: the runner of the tests has one.
        while self.states() != wanted:
            time.sleep(0.01)

    def started(self, command):
        self.addCleanup(subprocess.Popen(["sh", "-c", command], start_new_session=True).wait)
        self.addCleanup(self.tree.end)

    def test_daemons_are_stopped_and_continued(self):
        self.started("(setsid sleep 1000 & setsid sleep 1000 &); exec sleep 1000")
        self.until(["S", "S", "S"])
        self.tree.stop()
        self.until(["T", "T", "T"])
        self.tree.go_on()
        self.until(["S", "S", "S"])
        self.tree.end()
        self.assertEqual(self.states(), [])

    def test_what_has_stopped_itself_stays_so(self):
        self.started("kill -STOP $$")
        self.until(["T"])
        self.tree.stop()
        self.tree.go_on()
        self.assertEqual(self.states(), ["T"])

    def test_a_seed_repeats_its_stops(self):
        first, again, other = (list(itertools.islice(stall.times(seed, 20, False), 50)) for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_without_a_control_group_a_fifth_is_left(self):
        pairs = list(itertools.islice(stall.times(1, 20, False), 5000))
        self.assertTrue(all(0.01 <= stop <= 1 for _, stop in pairs))
        self.assertAlmostEqual(sum(run for run, _ in pairs) / sum(run + stop for run, stop in pairs), 0.2, delta=0.01)

    def test_a_folder_that_is_no_control_group_limits_nothing(self):
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = file.read().rpartition("0::")[2].strip()
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(root + own, exist_ok=True)
            self.assertIsNone(stall.Quota(20, root).folder)
            self.assertEqual(os.listdir(root + own), [])

    def planned(self, suites):
        """A folder with the plan of some suites, which are scripts of the shell."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        os.makedirs(f"{folder}/cache")
        units = []
        for name, text in suites.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(file.name, 0o755)
            units.append({"id": name, "pkg-name": name, "style": "local", "component-name": f"test:{name}", "bin-file": file.name,
                          "pkg-src": {"path": folder}})
        with open(f"{folder}/cache/plan.json", "w", encoding="utf-8") as file:
            json.dump({"install-plan": units}, file)
        return folder

    def stalled(self, folder, *options):
        return subprocess.Popen([sys.executable, "scripts/stall.py", "--seed", "3", *options, folder], stdout=subprocess.PIPE, text=True)

    def test_ctrl_c_leaves_nothing_behind(self):
        for jobs in (1, 2):
            with self.subTest(jobs=jobs):
                endless = {f"{name}-test": f"(setsid sleep 1000 &)\ntouch started-{name}\nexec sleep 1000" for name in "xy"}
                folder = self.planned(endless)
                running = self.stalled(folder, "--jobs", str(jobs))
                while not all(os.path.exists(f"{folder}/started-{name}") for name in "xy"[:jobs]):
                    time.sleep(0.01)
                running.send_signal(signal.SIGINT)
                said, _ = running.communicate()
                self.assertEqual(running.returncode, 130, said)
                self.assertIn("0 rounds, 0 failed", said)
                self.assertEqual(self.states(), [])

    def test_a_killed_round_has_failed_and_leaves_nothing_behind(self):
        # The suite kills the process of its round, its parent.
        folder = self.planned({"x-test": "(setsid sleep 1000 &)\nkill -KILL $PPID\nexec sleep 1000", "y-test": "echo All 5 tests passed"})
        said, _ = self.stalled(folder, "--rounds", "1").communicate()
        for line in ("x-test seed 3: FAIL", "y-test seed 3: PASS", "2 rounds, 1 failed"):
            self.assertIn(line, said)
        self.assertEqual(self.states(), [])

    def test_rounds_at_once_are_told_each(self):
        # In the first round, either ends only if the other runs.
        meeting = {name: f"touch {name}-$$\nuntil ls {other}-* >/dev/null 2>&1; do sleep 0.01; done\n{last}"
                   for name, other, last in (("x-test", "y-test", "exit 3"), ("y-test", "x-test", "echo All 5 tests passed"))}
        running = self.stalled(self.planned(meeting), "--jobs", "2", "--rounds", "2")
        said, _ = running.communicate()
        self.assertEqual(running.returncode, 1, said)
        for line in ("x-test seed 3: FAIL", "y-test seed 4: PASS", "4 rounds, 2 failed", "SUITE=x ROUNDS=1 SEED=4"):
            self.assertIn(line, said)


if __name__ == "__main__":
    unittest.main()
