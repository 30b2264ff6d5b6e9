#!/usr/bin/env python3
"""Makes a site of the Markdown pages: the documents, the manuals, the papers, the results and every package's own pages.

usage: site.py [--check | FOLDER]

A page keeps its path, with .html for .md; README.md of the root is index.html. Links to sources lead to a page with the
source. If FOLDER/api has the Haddocks (docs.py), the menu leads to them. Every relative link and anchor of the finished
site is followed, and a dead one is a failure. --check does all this in a temporary folder. cmark-gfm reads the Markdown.
"""
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from urllib.parse import quote, unquote

from packages import APART, ROOMS, Project

SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")
HEADING = re.compile(r"<h([1-6])>(.*?)</h\1>", re.DOTALL)
LINK = re.compile(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
AS_THEY_ARE = (".html", ".svg", ".png", ".json", ".css", ".js", ".ico", ".txt")

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{up}site.css">
</head>
<body>
<header><a class="home" href="{up}index.html">Heddle</a><label for="menu">Menu</label></header>
<input type="checkbox" id="menu">
<nav>{menu}</nav>
<main>
{body}
</main>
</body>
</html>
"""

STYLE = """:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --line: #d5dae1; --back: #fff; --card: #f6f7f9; --link: #0b62c4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39414d; --back: #14171c; --card: #1c2128; --link: #5aa9ff } }
* { box-sizing: border-box }
body { margin: 0; font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back);
  display: grid; grid-template-columns: 16rem minmax(0, 1fr); grid-template-rows: auto 1fr }
header { grid-column: 1 / 3; padding: .6rem 1rem; border-bottom: 1px solid var(--line); display: flex; justify-content: space-between }
.home { font-weight: 700; font-size: 1.15rem; color: var(--ink); text-decoration: none }
#menu, label { display: none }
nav { padding: 1rem; border-right: 1px solid var(--line); font-size: .92rem }
nav h2 { font-size: .8rem; margin: 1.1rem 0 .2rem; color: var(--soft); text-transform: uppercase; letter-spacing: .05em }
nav ul { list-style: none; margin: 0; padding: 0 } nav li { margin: .1rem 0 }
nav a[aria-current] { font-weight: 600; color: var(--ink) }
main { padding: 1rem 1.5rem 4rem; max-width: 56rem; width: 100% }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px }
h1 { font-size: 1.7rem; line-height: 1.25 } h2 { font-size: 1.3rem; margin-top: 2.2rem } h3 { font-size: 1.08rem; margin-top: 1.6rem }
code { font: .88em ui-monospace, monospace; background: var(--card); padding: .1em .25em; border-radius: 4px; overflow-wrap: anywhere }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; line-height: 1.4 }
pre code { background: none; padding: 0; overflow-wrap: normal }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; font-size: .94rem }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--soft) }
@media (max-width: 48rem) {
  body { display: block } label { display: inline; cursor: pointer; color: var(--link) }
  nav { display: none; border: 0; border-bottom: 1px solid var(--line) } #menu:checked + nav { display: block }
  main { padding: .5rem 1rem 3rem } }
"""


class Wrong(Exception):
    """What stops the site from being made."""


def place_of(path):
    """Where a tracked file's page is."""
    if path == "README.md":
        return "index.html"
    if path.endswith(".md"):
        return path[:-3] + ".html"
    return path if path.endswith(AS_THEY_ARE) else path + ".html"


def with_anchors(body):
    """Headings get the names that check_links.py knows."""
    found = set()

    def named(match):
        text = html.unescape(TAG.sub("", match[2]))
        anchor = base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeated = 0
        while anchor in found:
            repeated += 1
            anchor = f"{base}-{repeated}"
        found.add(anchor)
        return f'<h{match[1]} id="{html.escape(anchor)}">{match[2]}</h{match[1]}>'

    return HEADING.sub(named, body)


class Site:
    def __init__(self, out):
        listing = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
        self.tracked = {path for path in listing.split("\0") if path and os.path.exists(path)}
        self.out, self.sources = out, set()
        self.pages = sorted(path for path in self.tracked if path.endswith(".md"))
        self.titles = {path: self.title(path) for path in self.pages}
        self.groups = self.menu()

    @staticmethod
    def title(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith("# "):
                    return re.sub(r"[`*]", "", line[2:]).strip()
        return os.path.basename(path)

    def menu(self):
        """What the menu has: groups of pages."""
        below = lambda folder: [path for path in self.pages if os.path.dirname(path) == folder]
        start = ["README.md", "docs/install.md", "docs/library.md", "docs/performance.md", "docs/glossary.md", "CHANGELOG.md"]
        project = Project()
        packages = [f"{package.directory}/README.md" for room in ROOMS if room not in APART for package in project.in_room(room)]
        house = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/building.md", "STYLE.md", "SECURITY.md"]
        groups = [("Start", start), ("Manuals", below("docs/manual")), ("Papers", below("docs/papers")), ("Packages", packages), ("The house", house)]
        return [(name, [path for path in paths if path in self.titles]) for name, paths in groups]

    def navigation(self, place, api):
        up = "../" * place.count("/")
        parts = []
        for name, paths in self.groups:
            parts.append(f"<h2>{name}</h2><ul>")
            for path in paths:
                here = ' aria-current="page"' if place_of(path) == place else ""
                title = "Overview" if path == "README.md" else self.titles[path]
                parts.append(f'<li><a href="{up}{place_of(path)}"{here}>{html.escape(title)}</a></li>')
            if name == "Start":
                parts.append(f'<li><a href="{up}docs/results/index.html">The documents, measured again</a></li>')
                if api:
                    parts.append(f'<li><a href="{up}api/index.html">Haddocks</a></li>')
            parts.append("</ul>")
        return "".join(parts)

    def write(self, place, title, body, api):
        target = os.path.join(self.out, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(PAGE.format(title=html.escape(title), up="../" * place.count("/"), menu=self.navigation(place, api), body=body))

    def link(self, path, place, reference):
        """Where a link of a page leads in the site."""
        if SCHEME.match(reference) or reference.startswith("#") or not reference:
            return reference
        name, hash_, anchor = html.unescape(reference).partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(name)))
        if target not in self.tracked:
            readme = "README.md" if target == "." else f"{target}/README.md"
            if readme not in self.tracked:
                return None
            target = readme
        if not target.endswith(".md"):
            self.sources.add(target)
        relative = os.path.relpath(place_of(target), os.path.dirname(place) or ".")
        return html.escape(quote(relative) + hash_ + anchor)

    def page(self, path, api):
        place = place_of(path)
        made = subprocess.run(["cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", path], capture_output=True, text=True, check=True)
        body = with_anchors(re.sub(r"<!--.*?-->", "", made.stdout, flags=re.DOTALL))

        def moved(match):
            where = self.link(path, place, match[1])
            # A folder without a page of its own: the words stay.
            return match[3] if where is None else f'<a href="{where}"{match[2]}>{match[3]}</a>'

        body = LINK.sub(moved, body)
        self.write(place, f"{self.titles[path]} – Heddle" if path != "README.md" else "Heddle", body, api)

    def source(self, path, api):
        """A tracked file that a page links to: as it is if a browser shows it, else on a page."""
        place = place_of(path)
        if place == path:
            # A page of HTML has what it needs beside it.
            folder = os.path.dirname(path) + "/"
            beside = [one for one in self.tracked if one.startswith(folder) and not one.endswith(".md")] if path.endswith(".html") else [path]
            for one in beside:
                os.makedirs(os.path.dirname(os.path.join(self.out, one)), exist_ok=True)
                shutil.copy(one, os.path.join(self.out, one))
            return
        with open(path, encoding="utf-8", errors="replace") as file:
            text = html.escape(file.read())
        self.write(place, f"{path} – Heddle", f"<h1><code>{html.escape(path)}</code></h1>\n<pre><code>{text}</code></pre>", api)

    def remove_old(self):
        """Pages of an older site, whose sources may be gone; the Haddocks stay. Nothing else is ever removed."""
        if os.path.exists(os.path.join(self.out, "site.css")):
            for name in os.listdir(self.out):
                path = os.path.join(self.out, name)
                if name != "api":
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def make(self):
        api = os.path.exists(os.path.join(self.out, "api", "index.html"))
        os.makedirs(self.out, exist_ok=True)
        self.remove_old()
        with open(os.path.join(self.out, "site.css"), "w", encoding="utf-8") as file:
            file.write(STYLE)
        self.sources.add("docs/results/index.html")
        for path in self.pages:
            self.page(path, api)
        for path in sorted(self.sources):
            self.source(path, api)
        # The results' page is read without this site, too: it names the papers by their Markdown's path, and leads to no other page.
        target = os.path.join(self.out, "docs/results/index.html")
        with open(target, encoding="utf-8") as file:
            text = file.read()
        with open(target, "w", encoding="utf-8") as file:
            text = re.sub(r'(<a href="[^":#]*)\.md"', r'\1.html"', text)
            file.write(text.replace("<body>", '<body>\n<p><a href="../../index.html">Heddle</a></p>', 1))
        return len(self.pages), len(self.sources)


class Links(HTMLParser):
    """A page's links and anchors."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = set(), set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))


def dead_links(out):
    """Relative links of the site's own pages that lead nowhere."""
    read = {}
    for folder, _, names in os.walk(out):
        if os.path.relpath(folder, out).split(os.sep)[0] == "api":
            continue
        for name in names:
            if name.endswith(".html"):
                parser = Links()
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    parser.feed(file.read())
                read[os.path.normpath(os.path.join(folder, name))] = parser
    for page, parser in sorted(read.items()):
        for link in sorted(parser.links):
            if SCHEME.match(link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), unquote(name))) if name else page
            if not os.path.exists(target):
                yield f"{os.path.relpath(page, out)}: {link} leads nowhere"
            elif anchor and target in read and unquote(anchor).lower() not in {known.lower() for known in read[target].anchors}:
                yield f"{os.path.relpath(page, out)}: {link}: there is no #{anchor}"


def make(out):
    if shutil.which("cmark-gfm") is None:
        raise Wrong("cmark-gfm is not there; run: make setup")
    counts = Site(out).make()
    dead = list(dead_links(out))
    for line in dead[:20]:
        print(line)
    if dead:
        raise Wrong(f"{len(dead)} links of the site lead nowhere")
    return counts


def main():
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        sys.exit(__doc__)
    try:
        if sys.argv[1] == "--check":
            with tempfile.TemporaryDirectory() as folder:
                pages, sources = make(folder)
            print(f"check-site: ok, {pages} pages, {sources} sources")
        else:
            pages, _ = make(os.path.abspath(sys.argv[1]))
            print(f"{pages} pages: {sys.argv[1]}/index.html; to read them: bin/heddle serve {sys.argv[1]}")
    except Wrong as reason:
        sys.exit(f"site.py: {reason}")


if __name__ == "__main__":
    main()
