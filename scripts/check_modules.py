#!/usr/bin/env python3
"""Every module under src/ and app/ lists what it exports, none is longer than 700 lines, and none is a symbolic link."""
import re
import subprocess
import sys

LONGEST = 700

BLOCK_COMMENT = re.compile(r"\{-(?:(?!\{-|-\}).)*-\}", re.DOTALL)
LINE_COMMENT = re.compile(r"--+(?![!#$%&*+./<=>?@\\^|~:-]).*")
HEADER = re.compile(r"^\s*module\s+[\w.]+\s*(\(|where\b)", re.MULTILINE)


def main():
    listing = subprocess.run(["scripts/sources.sh"], capture_output=True, text=True, check=True)
    complaints = []
    for path in listing.stdout.split():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.count("\n")
        if lines > LONGEST:
            complaints.append(f"{path}: {lines} lines, more than {LONGEST}: find the second module inside")
        parts = path.split("/")
        if "src" in parts or "app" in parts:
            header = HEADER.search(without_comments(text))
            if header is None:
                complaints.append(f"{path}: no module header: write one with an export list")
            elif header.group(1) != "(":
                complaints.append(f"{path}: exports everything: write an export list")
    for path in links():
        complaints.append(f"{path}: a symbolic link: what suites share is in test-support/heddle-testkit")
    for complaint in complaints:
        print(f"  {complaint}")
    if complaints:
        sys.exit("check-modules: see above; STYLE.md, section 2, shows a module from top to bottom")
    print("check-modules: ok")


def links():
    """The links among the tracked files, which Git has as files of mode 120000; packages.py looks after each CHANGELOG."""
    listing = subprocess.run(["git", "ls-files", "--stage"], capture_output=True, text=True, check=True)
    paths = [line.split("\t")[1] for line in listing.stdout.splitlines() if line.startswith("120000 ")]
    return [path for path in paths if not path.endswith("/CHANGELOG")]


def without_comments(text):
    """Enough for finding a header: nested block comments go from the inside out."""
    text = LINE_COMMENT.sub("", text)
    while True:
        shorter = BLOCK_COMMENT.sub("", text)
        if shorter == text:
            return text
        text = shorter


main()
