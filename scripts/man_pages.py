#!/usr/bin/env python3
"""Writes the man pages of heddle, from what `--help` prints and from docs/manual.

usage: man_pages.py HEDDLE FOLDER

HEDDLE is the built command. Name, synopsis and options come from its --help, the other sections from docs/manual/NAME.md.
Tables become lists of terms, which fit a terminal of any width. lowdown turns the Markdown into man(7).
"""
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ("serve", "find", "pipe", "json", "trace", "password", "controller", "ofbench")
# Pages that are no command's: the section, and a summary.
OTHERS = {
    "serve-config": (5, "configurations of heddle serve"),
    "cookbook": (7, "recipes for heddle serve"),
}
# No dashes made of "--", no links made of what resembles an address.
PLAIN = ("--out-no-smarty", "--parse-no-autolink")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# Options and commands of optparse-applicative's help: two blanks, the term, and the text beside it or below.
TERM = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")


def fail(sentence):
    sys.exit(f"man pages: {sentence}")


def run(*command, text=None):
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


# ------------------------------------------------------------------------------------- from --help


def literal(text):
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~^])", r"\\\1", text)


def term(word):
    """As GNU's pages have it: words of ours bold, what the user fills in italic."""
    parts = re.split(r"([ ,=|]+)", word)
    return "".join(
        f"*{literal(part)}*" if re.search(r"[A-Z]{2}|^N$", part) and not part.startswith("-") else f"**{literal(part)}**" if re.match(r"[-\w]", part) else part.replace("|", "\\|").replace(",", ", ")
        for part in parts
    )


def definitions(lines):
    """A block of options, as a list of terms."""
    entries = []
    for line in lines:
        found = TERM.match(line)
        if found:
            entries.append([found[1], found[2] or ""])
        else:
            entries[-1][1] += " " + line.strip()
    return entries


def as_list(entries):
    return "\n".join(f"{term(name)}\n: {literal(text.strip())}\n" for name, text in entries)


def parse_help(text):
    """The usage, the entries under each heading that ends in a colon, and the paragraphs after them."""
    paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    usage = next(part for part in paragraphs if part.startswith("Usage:"))
    # The description comes below, in optparse-applicative 0.18 after an empty line: then it is the first paragraph.
    synopsis = " ".join(line.strip() for line in re.match(r"Usage:(.*(?:\n {4,}.*)*)", usage)[1].splitlines())
    groups, notes = {}, []
    for part in paragraphs[paragraphs.index(usage) + 1 :]:
        heading, _, block = part.partition("\n")
        if heading.startswith("Available ") and heading.endswith(":"):
            groups[heading[len("Available ") : -1]] = definitions(block.splitlines())
        else:
            notes.append(" ".join(part.split()))
    return synopsis, groups, notes


# -------------------------------------------------------------------------------- from docs/manual


def cells(row):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def table_as_list(rows):
    """The first cell is the term; of several others, each is labelled with its column, but for the meaning."""
    names = cells(rows[0])
    label = f"{names[-1]}: " if len(names) > 2 and names[-1] != "Meaning" else ""
    text = []
    for row in rows[2:]:
        first, *middle, last = cells(row) + [""] * (len(names) == 1)
        labelled = "".join(f"{name}: {cell}. " for name, cell in zip(names[1:], middle) if cell not in ("", "–"))
        text.append(f"{first}\n: {labelled}{label}{last}\n")
    return text


def reference(name):
    return f"**heddle-{name}**({OTHERS[name][0] if name in OTHERS else 1})"


def plain_link(page):
    def replaced(found):
        label, target = found[1], found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        path, _, _ = target.partition("#")
        name = os.path.splitext(os.path.basename(path))[0]
        if not path:
            return label
        path = os.path.normpath(os.path.join("docs/manual", path))
        if os.path.dirname(path) == "docs/manual" and (name in COMMANDS or name in OTHERS):
            return reference(name)
        return f"`{path}` of the sources" if label.endswith(".md") else label

    return LINK.sub(replaced, page)


def manual(command):
    """The introduction, and the sections: tables as lists, links as text, headings one level up."""
    with open(os.path.join(ROOT, "docs", "manual", f"{command}.md"), encoding="utf-8") as file:
        lines = file.read().splitlines()[1:]
    text, rows, fenced = [], [], False
    for line in [*lines, ""]:
        fenced ^= line.startswith("```")
        if line.startswith("|") and not fenced:
            rows.append(plain_link(line))
            continue
        if rows:
            text += table_as_list(rows)
            rows = []
        if fenced or line.startswith("```"):
            # The language of a block means nothing here.
            text.append("```" if line.startswith("```") else line)
        elif line.startswith("##"):
            heading = line[1:]
            text.append(heading.upper() if heading.startswith("# ") else heading)
        else:
            text.append(line)
    # Links may be broken over two lines.
    parts = re.split(r"(^```$.*?^```$)", "\n".join(text), flags=re.M | re.S)
    joined = "".join(part if part.startswith("```") else plain_link(part) for part in parts)
    introduction, _, sections = joined.partition("\n# ")
    return introduction.strip(), "# " + re.sub(r"^OPTIONS$", "OPTIONS IN DETAIL", sections, count=1, flags=re.M)


# ----------------------------------------------------------------------------------------- the pages


def name_section(name, summary):
    summary = summary[0].lower() + summary[1:] if summary[:2] != summary[:2].upper() else summary
    return f"# NAME\n\n{name} - {literal(summary)}\n"


def command_page(heddle, command, summary):
    text = run(heddle, command, "--help")
    introduction, sections = manual(command)
    if command == "find":
        usage, _, listing = text.partition("\n\n")
        synopsis, options = usage.partition(":")[2].strip(), f"```\n{listing.strip()}\n```\n"
    else:
        synopsis, groups, notes = parse_help(text)
        options = as_list(groups["options"]) + "".join(f"\n{literal(note)}\n" for note in notes if note != summary)
    others = ["heddle", *(f"heddle-{name}" for name in COMMANDS if name != command)]
    see = ", ".join(
        [f"**{name}**(1)" for name in [*others, "find"] if (name != "find" or command == "find")]
        + [reference(name) for name in OTHERS if command == "serve"]
    )
    return "\n\n".join(
        [
            name_section(f"heddle-{command}", summary),
            f"# SYNOPSIS\n\n{term(synopsis)}",
            f"# DESCRIPTION\n\n{introduction}",
            f"# OPTIONS\n\n{options}",
            sections,
            f"# SEE ALSO\n\n{see}\n",
        ]
    )


def other_page(name):
    introduction, sections = manual(name)
    return "\n\n".join(
        [
            name_section(f"heddle-{name}", OTHERS[name][1]),
            f"# DESCRIPTION\n\n{introduction}",
            sections,
            "# SEE ALSO\n\n" + ", ".join(["**heddle-serve**(1)", *(reference(other) for other in OTHERS if other != name)]) + "\n",
        ]
    )


def main_page(text):
    synopsis, groups, notes = parse_help(text)
    pages = ", ".join(reference(name) for name in [*COMMANDS, *OTHERS])
    summary = text.splitlines()[0].partition(" - ")[2]
    return "\n\n".join(
        [
            name_section("heddle", summary),
            f"# SYNOPSIS\n\n{term(synopsis)}",
            "# OPTIONS\n\n" + as_list(groups["options"]),
            "# COMMANDS\n\n" + as_list(groups["commands"]) + "".join(f"\n{literal(note)}\n" for note in notes),
            f"# SEE ALSO\n\n{pages}\n",
        ]
    )


def write(folder, name, version, text, section=1):
    date = time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    page = run("lowdown", "-s", "-tman", *PLAIN, "-m", f"section={section}", "-m", f"title={name.upper()}", "-m", f"date={date}", "-m", f"source={version}", text=text)
    # mandoc does not know the font C. Examples are indented.
    page = page.replace("\\fC", "\\fB").replace("\n.EX\n", "\n.RS 4\n.EX\n").replace("\n.EE\n", "\n.EE\n.RE\n")
    # Headings stand on the line of their macro, and no paragraph begins right after one.
    page = re.sub(r"^\.(SH|SS)\n(.*)\n", r".\1 \2\n", page, flags=re.M)
    page = re.sub(r"^(\.S[HS] .*\n)\.(?:LP|PP)\n", r"\1", page, flags=re.M)
    with open(os.path.join(folder, f"{name}.{section}"), "w", encoding="utf-8") as file:
        file.write(page)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    heddle, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    if not os.access(heddle, os.X_OK):
        fail(f"{sys.argv[1]} has not been built; run: make command")
    if not shutil.which("lowdown"):
        fail("lowdown is not installed; run: apt-get install lowdown")
    os.makedirs(folder, exist_ok=True)
    text = run(heddle, "--help")
    version = " ".join(run(heddle, "--version").split()[:2])
    summaries = dict(parse_help(text)[1]["commands"])
    write(folder, "heddle", version, main_page(text))
    for command in COMMANDS:
        write(folder, f"heddle-{command}", version, command_page(heddle, command, " ".join(summaries[command].split())))
    for name, (section, _) in OTHERS.items():
        write(folder, f"heddle-{name}", version, other_page(name), section)


if __name__ == "__main__":
    main()
