#!/usr/bin/env python3
"""Keeps what documents say about packages equal to the cabal files, and the packages' borders closed.

usage: packages.py [--check]

Writes the generated parts of README.md (the rooms), docs/library.md (the packages) and ARCHITECTURE.md (the picture);
they stand between `<!-- packages: NAME -->` and `<!-- end -->`. Writes hie.yaml, which tells an editor the component of
each file, and examples/site/packages.json, which the example site lays out. With --check it writes nothing and complains where they are stale. Either way it complains about

  - an import of another package's Internal module,
  - an Internal module without `not-home`, which Haddock would list among the public ones,
  - a dependency of a room on a room above it, and a library that depends on a package for tests,
  - cabal.command.project, if it is not what the heddle command needs,
  - cabal.project.debian, if its packages are not those of cabal.project,
  - a package whose LICENSE or CHANGELOG is not the project's, since its sdist has its own,
  - with --check, whatever `cabal check` complains about, except what INTENDED explains.
"""
import json
import os
import re
import subprocess
import sys

# From the top to the bottom: a package depends on packages of its own room and of rooms below it.
ROOMS = {
    "app": "the `heddle` command",
    "measure": "benchmarks, timelines of event logs",
    "net": "sockets, HTTP, the web server",
    "cluster": "messages between processes",
    "stream": "pipelines and the stream language",
    "sched": "parallel tasks",
    "base": "primitives, byte formats, JSON",
    "test-support": "what test suites share",
}
# Rooms without a library for users: the picture shows them in one line, at the end.
APART = {"bench": "C twins, other servers and programs, measurements", "test-support": "what several test suites share"}
KINDS = {"library": "lib", "executable": "exe", "test-suite": "test", "benchmark": "bench"}
ONLY_FOR_TESTS = {"QuickCheck", "tasty", "tasty-hunit", "tasty-quickcheck", "heddle-testkit", "inspection-testing", "weigh"}

# What `cabal check` may say, and why we want it so.
INTENDED = {
    "'ghc-options: -O2'": "the libraries are measured with it, and a user's project may not ask for it",
    "'ghc-options: -O0'": "test suites whose own speed does not matter; they compile faster",
    "'cc-options: -O": "kernels are useless without it, and make check builds without Cabal's",
    "is experimental feature (issue #5660)": "heddle-coroutine's public library of the article's listings",
}
# A package without sdist, whose C is in a folder that cabal-install 3.4 takes for the parent folder.
NO_SDIST = {"heddle-bench"}

FIELD = re.compile(r"^(\s*)([A-Za-z-]+):(.*)$")
STANZA = re.compile(r"^(library|executable|test-suite|benchmark|common|flag|foreign-library|source-repository)\b\s*(\S*)")
IMPORT = re.compile(r"^import\s+(?:\{-#.*?#-\}\s*)?(?:safe\s+)?(?:qualified\s+)?([A-Z][\w.]*)", re.MULTILINE)


class Package:
    """What a cabal file says of itself and its components."""

    def __init__(self, path):
        self.path, self.directory = path, os.path.dirname(path)
        self.room = path.split("/")[0]
        self.stanzas = imported(stanzas(path))
        top = self.stanzas[0][1]
        self.name, self.synopsis = top["name"], top["synopsis"]
        self.library = [fields for kind, fields in self.stanzas if kind == "library"]
        self.executable = [fields for kind, fields in self.stanzas if kind == "executable"]
        self.components = [(kind, fields["name"], fields) for kind, fields in self.stanzas if kind in KINDS]

    def depends(self, components):
        return {word for fields in components for word in dependencies(fields)}

    @property
    def short(self):
        return self.name.removeprefix("heddle-")


def stanzas(path):
    """The file's stanzas in order: a kind, and its fields joined to one line each; the first is the package's."""
    found, field = [("package", {})], None
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = re.sub(r"^\s*--.*", "", line.rstrip("\n"))
            stanza, match = STANZA.match(text), FIELD.match(text)
            if stanza:
                found.append((stanza.group(1), {"name": stanza.group(2)}))
                field = None
            elif match and (match.group(1) == "" or len(match.group(1)) <= 4):
                field = match.group(2).lower()
                # A condition's field adds to the one outside.
                before = found[-1][1].get(field)
                found[-1][1][field] = (before + ", " if before else "") + match.group(3).strip()
            elif field and text.strip():
                found[-1][1][field] += " " + text.strip()
    return found


def imported(found):
    """The stanzas with the fields of the common ones that they import."""
    common = {fields["name"]: fields for kind, fields in found if kind == "common"}
    for _, fields in found:
        for name in words(fields.get("import", "")):
            for field, text in common[name].items():
                joined = ", ".join(part.strip().strip(",") for part in (text, fields.get(field, "")) if part.strip())
                fields[field] = joined if field == "build-depends" else fields.get(field, text)
    return found


def words(text):
    return text.replace(",", " ").split()


def dependencies(fields):
    parts = fields.get("build-depends", "").split(",")
    return {re.split(r"[\s:<>=^]", part.strip())[0] for part in parts if part.strip()}


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns], capture_output=True, text=True, check=True)
    return [path for path in listing.stdout.splitlines() if os.path.exists(path)]


class Project:
    def __init__(self):
        self.packages = {}
        for path in tracked("*.cabal"):
            package = Package(path)
            self.packages[package.name] = package
        self.complaints = []

    def below(self, package):
        """The packages of ours that its library, or else its program, stands on."""
        return package.depends(package.library or package.executable) & set(self.packages) - {package.name}

    def level(self, package):
        return max((1 + self.level(self.packages[name]) for name in self.below(package)), default=0)

    def in_room(self, room):
        return sorted((p for p in self.packages.values() if p.room == room), key=lambda p: (self.level(p), p.name))

    # The generated parts.

    def rooms(self):
        rows = ["| Room | What is in it | Packages |", "|---|---|---|"]
        for room in [*reversed([room for room in ROOMS if room not in APART]), "test-support"]:
            links = [f"[{p.short}]({p.directory}/README.md)" for p in self.in_room(room) if os.path.exists(f"{p.directory}/README.md")]
            rows.append(f"| `{room}` | {ROOMS[room]} | {', '.join(links)} |")
        return rows

    def table(self):
        rows = ["| Package | What it is | Stands on |", "|---|---|---|"]
        for room in [*reversed([room for room in ROOMS if room not in APART]), "bench"]:
            for package in self.in_room(room):
                below = [self.packages[name] for name in self.below(package)]
                below = sorted((p for p in below if p.room not in APART), key=lambda p: (list(reversed(ROOMS)).index(p.room), self.level(p), p.name))
                stands = ", ".join(p.short for p in below) or "GHC and Linux"
                rows.append(f"| [{package.name}](../{package.directory}/README.md) | {package.synopsis} | {stands} |")
        return rows

    def picture(self):
        rows = ["```"]
        for room in ROOMS:
            if room in APART:
                continue
            label = room + "/"
            for package in reversed(self.in_room(room)):
                rows.append(f"{label:<10}{package.name:<19}L{self.level(package)}   {package.synopsis}")
                label = ""
        for room, what in APART.items():
            rows.append(f"{room + '/':<34}{what}")
        return [*rows, "```"]

    def editor(self):
        rows = ["# Which component a file belongs to, for haskell-language-server. Written by scripts/packages.py.", "cradle:", "  cabal:"]
        for room in [*reversed(ROOMS), "bench", "examples"]:
            for package in self.in_room(room):
                files, folders = {}, {}
                for kind, name, fields in package.components:
                    component = f"lib:{package.name}" if kind == "library" else f"{package.name}:{KINDS[kind]}:{name}"
                    directories = [os.path.normpath(f"{package.directory}/{word}") for word in words(fields.get("hs-source-dirs", "."))]
                    if "main-is" in fields:
                        files.setdefault(f"{directories[0]}/{fields['main-is']}", component)
                    for directory in directories:
                        folders.setdefault(directory, component)
                # The first match counts, so programs that share a folder come before it, and folders before those around them.
                for path, component in [*files.items(), *sorted(folders.items(), key=lambda item: -item[0].count("/"))]:
                    rows += [f"    - path: ./{path}", f"      component: {component}"]
        return rows

    def site(self):
        listed = sorted((p for p in self.packages.values() if p.room in ROOMS and p.room not in APART), key=lambda p: (self.level(p), p.name))
        rows = [{"name": p.name, "room": p.room, "layer": self.level(p), "on": sorted(self.below(p)), "purpose": p.synopsis} for p in listed]
        return ["{", '  "packages": [', *(f"    {json.dumps(row)}{'' if row is rows[-1] else ','}" for row in rows), "  ]", "}"]

    # What must hold.

    def complain(self, text):
        self.complaints.append(text)

    def borders(self):
        owners, sources = {}, {}
        for package in self.packages.values():
            for path in tracked(f"{package.directory}/*.hs", f"{package.directory}/*.hsc"):
                with open(path, encoding="utf-8") as file:
                    sources[path] = (package, file.read())
        for path, (package, text) in sources.items():
            inside = re.search(r"/src/(.*)\.hsc?$", path)
            if inside:
                module = inside.group(1).replace("/", ".")
                owners[module] = package
                if is_internal(module) and module in exposed(package) and "not-home" not in text:
                    self.complain(f"{path}: exposed and internal, but Haddock lists it: add {{-# OPTIONS_HADDOCK not-home #-}}")
        for path, (package, text) in sources.items():
            for module in IMPORT.findall(text):
                owner = owners.get(module)
                if owner and owner is not package and is_internal(module):
                    self.complain(f"{path}: imports {module}, which is internal to {owner.name}: what a sibling needs is public")

    def directions(self):
        order = list(ROOMS)
        for package in self.packages.values():
            if package.room not in order or package.room in APART:
                continue
            for name in sorted(self.below(package)):
                room = self.packages[name].room
                if room not in order or order.index(room) < order.index(package.room):
                    self.complain(f"{package.path}: depends on {name} in {room}/, which is above {package.room}/")
            for name in sorted(package.depends(package.library) & ONLY_FOR_TESTS):
                self.complain(f"{package.path}: the library depends on {name}, which is for tests")

    def command(self):
        needed, new = set(), {"heddle"}
        while new:
            needed |= new
            new = {name for known in new for name in self.below(self.packages[known])} - needed
        with open("cabal.command.project", encoding="utf-8") as file:
            listed = set(re.findall(r"^  (\S+/\S+)$", file.read(), re.MULTILINE))
        wanted = {self.packages[name].directory for name in needed}
        for directory in sorted(wanted - listed):
            self.complain(f"cabal.command.project: {directory} is missing, which the heddle command needs")
        for directory in sorted(listed - wanted):
            self.complain(f"cabal.command.project: {directory} is not needed by the heddle command")

    def copies(self):
        with open("LICENSE", "rb") as file:
            license_text = file.read()
        for package in self.packages.values():
            own = f"{package.directory}/LICENSE"
            if not os.path.exists(own) or os.path.islink(own) or open(own, "rb").read() != license_text:
                self.complain(f"{own}: not a copy of LICENSE; run: cp LICENSE {own}")
            log = f"{package.directory}/CHANGELOG"
            if not os.path.islink(log) or os.path.realpath(log) != os.path.realpath("CHANGELOG.md"):
                self.complain(f"{log}: not a symbolic link to CHANGELOG.md, which an sdist turns into a file")

    def distribution(self):
        for package in self.packages.values():
            if package.name in NO_SDIST:
                continue
            command = [os.path.abspath("scripts/cabal"), "check"]
            done = subprocess.run(command, cwd=package.directory, capture_output=True, text=True, check=False)
            said = " ".join((done.stdout + done.stderr).split())
            faults = [text.strip() for text in re.split(r"\b(?:Warning|Error): ", said) if is_fault(text)]
            if done.returncode != 0 and "arning: " not in said and not faults:
                faults = [said]
            for fault in faults:
                self.complain(f"{package.path}: cabal check: {fault}")

    def offline(self):
        listed = []
        for path in ("cabal.project", "cabal.project.debian"):
            with open(path, encoding="utf-8") as file:
                listed.append(set(re.findall(r"^  (\S+\.cabal)$", file.read(), re.MULTILINE)))
        for pattern in sorted(listed[0] ^ listed[1]):
            self.complain(f"cabal.project.debian: {pattern} is in only one of this file and cabal.project")


def is_fault(text):
    """Whether this part of what `cabal check` prints is a complaint, and none that we expect."""
    frame = re.match(r"\s*$|No errors or warnings|These warnings may|The following (errors|warnings)|Hackage would reject", text)
    return not frame and not any(part in text for part in INTENDED)


def is_internal(module):
    return module.startswith("Heddle.") and "Internal" in module.split(".")


def exposed(package):
    return {word for fields in package.library for word in words(fields.get("exposed-modules", ""))}


def generated(project, write):
    """Fills the marked parts; complains of stale ones unless it may write."""
    parts = {"README.md": ("rooms", project.rooms()), "docs/library.md": ("table", project.table()), "ARCHITECTURE.md": ("picture", project.picture())}
    for path, (name, rows) in parts.items():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        marked = re.compile(rf"(<!-- packages: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marked.search(text):
            project.complain(f"{path}: no part `<!-- packages: {name} -->`")
            continue
        new = marked.sub(lambda match: match.group(1) + "\n".join(rows) + "\n" + match.group(2), text)
        if new != text and write:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
            print(f"packages: wrote {path}")
        elif new != text:
            project.complain(f"{path}: the {name} part is not what the cabal files say; run scripts/packages.py")


def whole_files(project, write):
    for path, rows in (("hie.yaml", project.editor()), ("examples/site/packages.json", project.site())):
        text = "\n".join(rows) + "\n"
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if text != old and write:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            print(f"packages: wrote {path}")
        elif text != old:
            project.complain(f"{path}: not what the cabal files say; run scripts/packages.py")


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    project = Project()
    generated(project, write=not sys.argv[1:])
    whole_files(project, write=not sys.argv[1:])
    project.borders()
    project.directions()
    project.command()
    project.offline()
    project.copies()
    if sys.argv[1:]:
        project.distribution()
    for complaint in sorted(project.complaints):
        print(f"  {complaint}")
    if project.complaints:
        sys.exit("check-packages: see above; ARCHITECTURE.md says which package may use which")
    print(f"check-packages: ok, {len(project.packages)} packages")


if __name__ == "__main__":
    main()
