#!/usr/bin/env python3
"""Collects the Haddocks of all libraries in one folder, with a landing page that lists the packages.

usage: docs.py BUILDDIR FOLDER

BUILDDIR is where `cabal haddock` has built them. In FOLDER come index.html, a folder for each package, modules.html (all
modules) and doc-index.html (all names). Links between our packages stay inside; links to others, whose interfaces Debian
has in ghc-doc and libghc-*-doc, lead to Hackage. A link to a module that is hidden becomes plain text.
"""
import glob
import html
import os
import re
import shutil
import subprocess
import sys

from packages import APART, ROOMS, Project

LINK = re.compile(r'<a href="([^"#:]+\.html)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
# Haddock's pages load this from another site, for formulas, of which we have none.
MATHJAX = re.compile(r'<script src="https://[^"]*MathJax[^"]*"[^>]*></script>')
ELSEWHERE = re.compile(r"https://hackage\.haskell\.org/package/(heddle[a-z-]*?)-[\d.]+/docs/")

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Heddle: libraries</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 0.3rem }}
dt {{ font-weight: 600; margin-top: 0.4rem }}
dd {{ margin: 0 }}
</style>
</head>
<body>
<h1>Heddle</h1>
<p>Concurrent and parallel Haskell that is fast enough to replace C: plain blocking code in cheap threads, on all cores.</p>
<p><a href="../index.html">The documents</a> · <a href="modules.html">All modules</a> · <a href="doc-index.html">All names</a></p>
{rooms}
</body>
</html>
"""


def built(folder, name):
    """Where Haddock has left a package's pages; the newest, if several compilers have been here."""
    found = glob.glob(f"{folder}/build/*/ghc-*/{name}-[0-9]*/**/doc/html/{name}", recursive=True)
    # A sublibrary's pages have its own folder in their path.
    found = [path for path in found if "/l/" not in path] or found
    return max(found, key=os.path.getmtime, default=None)


def copy(source, target):
    """The pages, with the links between our packages made relative."""
    shutil.copytree(source, target)
    for path in glob.glob(f"{target}/**/*.html", recursive=True):
        up = "../" * (os.path.relpath(path, target).count("/") + 1)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(MATHJAX.sub("", ELSEWHERE.sub(lambda link: f"{up}{link.group(1)}/", text)))


def unlink_hidden(folder):
    """Turns links that lead nowhere into text; a page's targets are all there when this runs."""
    for path in glob.glob(f"{folder}/**/*.html", recursive=True):
        here = os.path.dirname(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        there = lambda link: link.group(0) if os.path.exists(os.path.join(here, link.group(1))) else link.group(2)
        with open(path, "w", encoding="utf-8") as file:
            file.write(LINK.sub(there, text))


def landing(project, present):
    parts = []
    for room in reversed([room for room in ROOMS if room not in APART]):
        packages = [package for package in project.in_room(room) if package.name in present]
        if packages:
            parts.append(f"<h2>{html.escape(ROOMS[room].replace('`', ''))}</h2>\n<dl>")
            for package in packages:
                parts.append(f'<dt><a href="{package.name}/index.html">{package.name}</a></dt><dd>{html.escape(package.synopsis)}</dd>')
            parts.append("</dl>")
    return PAGE.format(rooms="\n".join(parts))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = sys.argv[1:]
    project = Project()
    wanted = [package.name for room in ROOMS if room not in APART for package in project.in_room(room) if package.library]
    new = out.rstrip("/") + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    for name in wanted:
        source = built(folder, name)
        if source is None:
            sys.exit(f"docs.py: there are no Haddocks of {name} below {folder}")
        copy(source, f"{new}/{name}")
    interfaces = [f"--read-interface={name},{name}/{name}.haddock" for name in wanted]
    subprocess.run(["haddock", "--gen-contents", "--gen-index", "--quickjump", "--odir=.", "--title=Heddle", *interfaces], cwd=new, check=True, stdout=subprocess.DEVNULL)
    os.rename(f"{new}/index.html", f"{new}/modules.html")
    with open(f"{new}/index.html", "w", encoding="utf-8") as file:
        file.write(landing(project, set(wanted)))
    unlink_hidden(new)
    shutil.rmtree(out, ignore_errors=True)
    os.rename(new, out)
    print(f"Haddocks: {out}/index.html")


if __name__ == "__main__":
    main()
