#!/usr/bin/env python3
"""Every relative link in a tracked Markdown file leads to a tracked file or folder, and every #anchor to a heading.

Every module that a page names in backquotes exists, except in the changelog, which is history.
"""
import os
import re
import subprocess
import sys
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
INLINE = re.compile(r"\]\(\s*(?:<([^>]*)>|((?:[^\s()]|\([^\s()]*\))*))(?:\s+[\"'(][^)]*)?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]^][^\]]*\]:\s*(\S+)")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
NAMED = re.compile(r"<a\s[^>]*?(?:id|name)=[\"']([^\"']+)[\"']")
MODULE = re.compile(r"`(Heddle(?:\.[A-Z][A-Za-z0-9]*)+)`")
SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")


def main():
    listing = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    tracked = {path for path in listing.stdout.split("\0") if path and os.path.exists(path)}
    places = tracked | {folder for path in tracked for folder in folders(path)} | {"."}
    pages = {path: list(prose(path)) for path in sorted(tracked) if path.endswith(".md")}
    anchors = {path: anchors_of(lines) for path, lines in pages.items()}
    modules = {path.split("/src/", 1)[1][:-3].replace("/", ".") for path in tracked if "/src/" in path and path.endswith(".hs")}
    count = 0
    complaints = []
    for path, lines in pages.items():
        for number, line in lines:
            for link in links_of(line):
                if SCHEME.match(link):
                    continue
                count += 1
                reason = dead(path, link, places, anchors)
                if reason:
                    complaints.append(f"{path}:{number}: dead link {link}: {reason}")
        # The examples in STYLE.md name modules of no real package.
        if path not in ("CHANGELOG.md", "STYLE.md"):
            complaints += [
                f"{path}:{number}: there is no module {name}"
                for number, line in lines
                for name in MODULE.findall(line)
                if name not in modules and not name.startswith("Heddle.X")
            ]
    for complaint in complaints:
        print(complaint)
    if complaints:
        sys.exit("check-links: correct the paths, #anchors and modules above, or add the files to git")
    print(f"check-links: ok, {count} links")


def folders(path):
    """All folders above a path."""
    while path := os.path.dirname(path):
        yield path


def prose(path):
    """The lines of a page with their numbers, without fenced blocks."""
    fence = None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = FENCE.match(line)
            if fence is None and match:
                fence = match.group(1)
            elif fence is None:
                yield number, line.rstrip("\n")
            elif match and match.group(1).startswith(fence) and not line.strip(" `~\n"):
                fence = None


def links_of(line):
    """The targets of a line's links. Code spans contain no links, but a link's text may contain code."""
    line = CODE.sub(lambda match: "x" * len(match.group()), line)
    for match in INLINE.finditer(line):
        yield match.group(1) if match.group(1) is not None else match.group(2)
    if match := DEFINITION.match(line):
        yield match.group(1)


def anchors_of(lines):
    """The anchors that GitHub makes: lower case, punctuation dropped, spaces to hyphens, repeated ones numbered."""
    found = set()
    for _, line in lines:
        found.update(NAMED.findall(line))
        if match := HEADING.match(line):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1))
            anchor = base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            repeated = 0
            while anchor in found:
                repeated += 1
                anchor = f"{base}-{repeated}"
            found.add(anchor)
    return found


def dead(path, link, places, anchors):
    """Why a link of a page does not resolve, or None."""
    name, _, anchor = link.partition("#")
    if name.startswith("/"):
        return "links are relative to their page"
    name = unquote(name)
    target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if target not in places:
        return f"there is no {target} in git"
    if anchor and target in anchors and unquote(anchor).lower() not in anchors[target]:
        return f"{target} has no heading #{anchor}"
    return None


if __name__ == "__main__":
    main()
