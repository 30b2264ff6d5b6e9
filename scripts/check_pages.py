#!/usr/bin/env python3
"""The Haskell in the pages compiles against this build and prints what the page says; the manuals name real options.

usage: check_pages.py DIST

A block with imports is a module. If it has a `main` and ends in comments, it is run, and has to print these. A block
that begins with ```haskell refused has to be refused by the compiler. Any other block is an excerpt: a Haskell file of
the repository has it, line by line; a line of three dots leaves something out. A block whose paragraph links to a program
in examples/ has its code.

A long option in docs/manual/NAME.md, in backquotes or in a command line, is one that `heddle NAME --help` has, in
docs/manual/cookbook.md one of `heddle serve --help`, and in
docs/manual/mpi.md one of `heddle-mpirun --help`.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```haskell( refused)?\n(.*?)^```$", re.M | re.S)
EXAMPLE = re.compile(r"\]\(([^)\s]*examples/[^)\s]+\.hs)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
SPAN = re.compile(r"`(--[a-z][^`]*)`")
OPTION = re.compile(r"(?<![-\w])--[a-z][-a-z0-9]*")
SKIPPED = ("STYLE.md", "CHANGELOG.md")
# Manuals of libraries, which have no command.
LIBRARIES = ("wai", "websocket")
# Seconds that a program may take on a busy machine.
LIMIT = 300
# The language of the program in docs/library.md: whoever copies a block needs no other flags.
FLAGS = ["-XHaskell2010", "-v0", "-w", "-O0", "-threaded", "-package-env", "-"]


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", "-z", *patterns], capture_output=True, text=True, check=True).stdout
    return [path for path in listing.split("\0") if path and os.path.exists(path)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ------------------------------------------------------------------------------------------- Haskell


class Block:
    def __init__(self, page, line, text, refused, example):
        self.page, self.line, self.text, self.refused, self.example = page, line, text, refused, example

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def is_module(self):
        return re.search(r"^import ", self.text, re.M) is not None

    @property
    def is_program(self):
        return re.search(r"^main ::", self.text, re.M) is not None

    @property
    def printed(self):
        """The comments at its end: what it prints."""
        comments = []
        for line in reversed(self.text.splitlines()):
            if not line.startswith("-- "):
                break
            comments.insert(0, line[3:])
        return comments


def blocks():
    for page in tracked("*.md"):
        if page not in SKIPPED:
            text = read(page)
            for found in BLOCK.finditer(text):
                example = EXAMPLE.search(text[: found.start()].rstrip().rpartition("\n\n")[2])
                path = os.path.normpath(os.path.join(os.path.dirname(page), example[1])) if example else None
                yield Block(page, text.count("\n", 0, found.start()) + 2, found[2], found[1] is not None, path)


def excerpt_fault(block, sources):
    """None if one file has all of its pieces, in this order."""
    wanted = [line.strip() for line in block.text.splitlines()]
    for lines in sources:
        at = 0
        for piece in pieces(wanted):
            at = next((place + len(piece) for place in range(at, len(lines)) if lines[place : place + len(piece)] == piece), None)
            if at is None:
                break
        else:
            return None
    return f"{block}: it has no imports, and no Haskell file has these lines"


def example_fault(block):
    """None if the program has all of its code, in this order; comments are the page's own."""
    program = iter(line.strip() for line in read(block.example).splitlines())
    for line in block.text.splitlines():
        code = line.strip()
        if code and code != "..." and not code.startswith("--") and code not in program:
            return f"{block}: {block.example} has not, or not there: {code}"
    return None


def pieces(lines):
    piece = []
    for line in [*lines, "..."]:
        if line != "...":
            piece.append(line)
        elif piece:
            yield piece
            piece = []


def compile_and_run(block, database, folder):
    """What is wrong with a module, or None."""
    source = os.path.join(folder, "Page.hs")
    name = "Main" if block.is_program else "Page"
    header = "" if re.search(r"^module ", block.text, re.M) else f"module {name} where\n"
    pragmas = re.match(r"(?:\{-#.*?#-\}\s*)*", block.text, re.S)[0]
    rest = f'{{-# LINE {block.line + pragmas.count(chr(10))} "{block.page}" #-}}\n' + block.text[len(pragmas) :]
    with open(source, "w", encoding="utf-8") as file:
        file.write(pragmas + header + rest)
    runs = block.is_program and block.printed
    output = ["-o", os.path.join(folder, "page")] if runs else ["-fno-code"]
    command = ["ghc", *FLAGS, "-package-db", database, "-outputdir", folder, *output, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if block.refused:
        return None if done.returncode != 0 else f"{block}: it compiles, though the page says that it is refused"
    if done.returncode != 0:
        return f"{block}: it does not compile\n{done.stderr.strip()}"
    if not runs:
        return None
    try:
        done = subprocess.run(output[1:], capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"{block}: it does not end within {LIMIT} s"
    if done.stdout.splitlines() == block.printed:
        return None
    return f"{block}: it prints\n{done.stdout}{done.stderr}and not\n" + "\n".join(block.printed)


def block_faults(database):
    """How many modules and excerpts there are, and what is wrong with each."""
    counts, faults = [0, 0], []
    sources = [[line.strip() for line in read(path).splitlines()] for path in tracked("*.hs")]
    for block in blocks():
        counts[block.is_module] += 1
        if block.example:
            faults.append(example_fault(block))
        if block.is_module:
            folder = tempfile.mkdtemp(prefix="heddle-pages-")
            try:
                faults.append(compile_and_run(block, database, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        else:
            faults.append(excerpt_fault(block, sources))
    return counts, list(filter(None, faults))


# ----------------------------------------------------------------------------------------- manuals


def option_faults(heddle, mpirun):
    """How many options the manuals name, and those that the command does not have."""
    count, faults = 0, []
    for page in tracked("docs/manual/*.md"):
        # serve-config.md and the cookbook belong to serve.
        command = os.path.splitext(os.path.basename(page))[0].replace("cookbook", "serve").partition("-")[0]
        if command in LIBRARIES:
            continue
        program, name = ([mpirun], "heddle-mpirun") if command == "mpi" else ([heddle, command], f"heddle {command}")
        done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
        known = set(OPTION.findall(done.stdout)) | {"--help"}
        text = read(page)
        code = [line for block in FENCED.findall(text) for line in block.splitlines() if name in line]
        named = {option for part in [*SPAN.findall(text), *code] for option in OPTION.findall(part)}
        count += len(named)
        faults += [f"{page}: {name} --help has no {option}" for option in sorted(named - known)]
    return count, faults


def only(what, *parts):
    """The one path that matches a pattern."""
    paths = [path for path in glob.glob(os.path.join(*parts), recursive=True) if os.access(path, os.X_OK)]
    if len(paths) != 1:
        sys.exit(f"check-pages: there are {len(paths)} {what} in {parts[0]}; run: make check-warnings")
    return os.path.abspath(paths[0])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    database = only("package databases", sys.argv[1], "packagedb", "ghc-*")
    heddle = only("heddle commands", sys.argv[1], "build", "*", "*", "heddle-[0-9]*", "x", "heddle", "**", "build", "heddle", "heddle")
    mpirun = only("heddle-mpirun programs", sys.argv[1], "build", "*", "*", "heddle-mpi-[0-9]*", "x", "heddle-mpirun", "**", "build", "heddle-mpirun", "heddle-mpirun")
    options, wrong = option_faults(heddle, mpirun)
    (excerpts, modules), faults = block_faults(database)
    for fault in wrong + faults:
        print(fault)
    if wrong or faults:
        sys.exit("check-pages: correct the pages above; `check_pages.py` without arguments says what is checked")
    print(f"check-pages: ok, {modules} modules, {excerpts} excerpts, {options} options")


if __name__ == "__main__":
    main()
