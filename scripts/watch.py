#!/usr/bin/env python3
"""Builds and runs a suite, and again whenever a file that it is made of is saved. Ctrl-C ends it.

usage: watch.py SUITE FOLDER [OPTION OF quick.py]...

A save while the suite is built or run ends that run and begins the next one. inotify(7) tells of saves, so nothing happens between.
"""
import ctypes
import os
import select
import signal
import struct
import subprocess
import sys

import packages
import quick

# inotify_init1(2) and inotify_add_watch(2).
CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK
MODIFIED = 0x08 | 0x40 | 0x80 | 0x100 | 0x200  # CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE
EVENT = struct.Struct("iIII")
# An editor writes several files for one save, and a checkout many: wait until this long nothing more has come, in milliseconds.
QUIET = 200


class Saves:
    """The saves of files in some folders and those below them."""

    def __init__(self, folders):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(CLOEXEC_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.roots, self.watched = folders, {}
        self.add(folders)

    def add(self, folders):
        for root in folders:
            for folder, below, _ in os.walk(root):
                below[:] = [name for name in below if not name.startswith(("dist-", "."))]
                watch = self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), MODIFIED)
                if watch < 0:
                    raise OSError(ctypes.get_errno(), f"cannot watch {folder}; see /proc/sys/fs/inotify/max_user_watches")
                self.watched[watch] = folder

    def read(self):
        """The paths that have changed since the last reading."""
        paths = set()
        while True:
            try:
                data = os.read(self.descriptor, 65536)
            except BlockingIOError:
                return paths
            while data:
                watch, _, _, length = EVENT.unpack_from(data)
                name = os.fsdecode(data[EVENT.size:EVENT.size + length].rstrip(b"\0"))
                data = data[EVENT.size + length:]
                if name and watch in self.watched:
                    path = os.path.join(self.watched[watch], name)
                    paths.add(path)
                    if os.path.isdir(path):
                        # What has been written there already has no event of its own.
                        self.add([path])
                        paths.update(os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files)

    def wait(self):
        """Waits for a save of a file that belongs to the project; the files."""
        paths = set()
        while not (kept := sources(paths)):
            select.select([self.descriptor], [], [])
            paths = self.read()
            while select.select([self.descriptor], [], [], QUIET / 1000)[0]:
                paths |= self.read()
        return kept


def sources(paths):
    """Those that git tracks, or would: what editors keep beside a file is none."""
    paths = {path for path in paths if not os.path.basename(path).startswith((".#", "#"))}
    if not paths:
        return paths
    known = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *sorted(paths)],
                           capture_output=True, text=True, check=True).stdout
    return {path for path in known.split("\0") if path}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wanted, folder, *options = sys.argv[1:]
    project = packages.Project()
    graph = quick.Graph(project.packages)
    suite = quick.suite_named(graph, wanted)
    needed = {suite}
    while new := {below for component in needed for below in graph.below[component]} - needed:
        needed |= new
    folders = sorted({project.packages[component.package].directory for component in needed})
    saves = Saves(folders)
    running = None
    # Also where Ctrl-C was ignored, as in the background, which what runs below would inherit.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)

    def run():
        return subprocess.Popen(["scripts/quick.py", "--suite", suite.name, *options, folder], start_new_session=True)

    def end():
        # As Ctrl-C does, to cabal, too: a suite that runs is ended by what runs it.
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGINT)
        running.wait()

    try:
        while True:
            running = run()
            changed = saves.wait()
            end()
            print(f"\n\n== {', '.join(sorted(changed)[:5])}\n", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        if running:
            end()


if __name__ == "__main__":
    main()
