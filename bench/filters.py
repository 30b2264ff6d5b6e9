"""Each stage of `heddle pipe` on one core and on all, beside tr, cut, awk and wc where they do the same; regular expressions
beside grep and ripgrep: cases of `run.py coroutine`.

The text has short rows, since what a stage costs for each row then counts most. The output of stages goes to /dev/null.
"""
import os
import random

from coroutines import column, compare, pipe_command, print_times, require, warm
from harness import HEDDLE, Unable, in_turn, ratios

ROWS_MEGABYTES = 100
WORDS = "ok fine GET POST /api/v1/items Error warn alpha beta gamma 12345 67890 user root delta".split()

# Name, expression, and what else does the same. Each stage of the language is in one of them, and each splitter.
STAGES = [
    ("id", "id", None),
    ("upper", "upper", ["tr", "a-z", "A-Z"]),
    ("fields", 'fields 2 by " "', ["cut", "-d", " ", "-f", "2"]),
    ("fields-blank", "fields 2", ["awk", "{ print $2 }"]),
    ("count", "count", ["wc", "-l"]),
    ("count-word", "count word", ["wc", "-w"]),
    ("select-row", 'select row having "Error"', ["grep", "-F", "Error"]),
    ("select-rows-not", 'select not row having "Error"', ["grep", "-v", "-F", "Error"]),
    ("select-numbered", 'select row having "Error" numbered', ["grep", "-n", "-F", "Error"]),
    ("select-text", 'select "Error"', ["grep", "-o", "-F", "Error"]),
    ("select-word", "select word", None),
    ("select-last-rows", 'select last 100000 row having "Error"', None),
    ("prepend", 'foreach row then prepend "> " end', ["sed", "s/^/> /"]),
    ("append", 'foreach row then append "--\\n" end', None),
    ("foreach-having", 'foreach row having "Error" then upper end', None),
    ("if", 'if row having "Error" then upper else lower end', None),
    ("where", 'upper where "Error"', None),
    ("replace", 'replace "ok" with "fine"', ["sed", "s/ok/fine/g"]),
    ("replace-regex", 'replace /[0-9]+/ with "N"', ["sed", "-E", "s/[0-9]+/N/g"]),
    ("number", "number", ["nl", "-b", "a", "-s", ":", "-w", "1"]),
    ("numbers", "numbers", None),
    ("head", "head 1000000", ["head", "-n", "1000000"]),
    ("tail", "tail 1000000", ["tail", "-n", "1000000"]),
    ("zip", "zip (numbers, id)", None),
    ("interleave", "interleave (id, upper)", None),
    ("boundary", 'foreach row then prepend "> " end || upper', None),
    ("command", 'foreach row then prepend "> " end | command "cat"', None),
]

EXPRESSIONS = [
    ("alternatives", r"(GET|POST) \/api\/[^ ]*7 HTTP", "(GET|POST) /api/[^ ]*7 HTTP"),
    ("literal-first", r"\/articles\/[0-9]*5 ", "/articles/[0-9]*5 "),
    ("no-literal", r"[0-9]{5} [^H]", "[0-9]{5} [^H]"),
    ("two-texts", r"FIND ME|curl\/7\.8+", r"FIND ME|curl/7\.8+"),
]


def rows_text(place):
    """The path of a text of short rows, the same in every run."""
    path = place.path("rows.txt")
    if not os.path.exists(path):
        source = random.Random(1)
        block = "".join(" ".join(source.choices(WORDS, k=source.randint(2, 5))) + "\n" for _ in range(50000)).encode()
        with open(path, "wb") as file:
            for _ in range(ROWS_MEGABYTES * 1000000 // len(block) + 1):
                file.write(block)
            os.fsync(file.fileno())
    return path


def quietly(command, path):
    """The command on the file, with its output to /dev/null: `timed` starts it through a shell that becomes it."""
    return ["sh", "-c", 'file=$1; shift; exec "$@" < "$file" > /dev/null', "sh", path, *command]


def stages():
    def run(place, options, results):
        path, cores = rows_text(place), set(place.cores[:2])
        for name, expression, other in STAGES:
            commands = {
                "heddle": quietly([HEDDLE, "pipe", "-j", "1", expression], path),
                "heddle -j2": quietly([HEDDLE, "pipe", "-j", "2", expression], path),
                **({other[0]: quietly(other, path)} if other and other[0] != "grep" else {}),
                # To /dev/null, GNU grep stops at the first hit.
                **({"grep": quietly(["sh", "-c", '"$@" | cat', "sh", *other], path)} if other and other[0] == "grep" else {}),
            }
            print(f"  {expression}")
            case = f"pipe-stages-{name}"
            samples = {who: [] for who in warm(place, commands, cores)[0]}
            require(samples, "heddle", "heddle -j2")
            for who in in_turn(samples, options.rounds):
                samples[who].append(place.timed(commands[who], cores))
            print_times(case, samples, results)
            wall = {who: column(samples, who, "wall_ms") for who in samples}
            ratios(f"{case}/one-core", wall["heddle -j2"], wall["heddle"], results)
            if other:
                cpu = {who: column(samples, who, "cpu_ms") for who in samples}
                compare(f"{case}/{other[0]}", cpu, "heddle", other[0], results)
            results.figure(f"{case}-resident-mb", max(column(samples, "heddle -j2", "kb")) / 1024, "MB", ".1f")

    return "pipe-stages", "every stage of the language: all cores against one, memory, other tools", run


def expressions():
    def run(place, options, results):
        log, cores = place.text(), {place.cores[0]}
        for name, ours, theirs in EXPRESSIONS:
            kinds = {
                "rows": (f"count row having /{ours}/", "-c", []),
                "matches": (f'foreach /{ours}/ then append "\\n" else suppress end | count', "-o", ["bash", "-o", "pipefail", "-c", '"$@" | wc -l', "bash"]),
            }
            for kind, (expression, flag, counting) in kinds.items():
                commands = {
                    "heddle": pipe_command(1, expression, log),
                    "grep": [*counting, "grep", flag, "-E", theirs, log],
                    "rg": [*counting, "rg", "--no-config", "--threads", "1", flag, theirs, log],
                }
                commands, output = warm(place, commands, cores)
                print(f"  {expression}: {output.decode().strip()}")
                samples = {who: [] for who in commands}
                for who in in_turn(commands, options.rounds):
                    run = place.timed(commands[who], cores)
                    if run.output != output:
                        raise Unable(f"{who} has another answer now: {run.output[:60]!r}")
                    samples[who].append(run)
                case = f"pipe-regex-{name}-{kind}"
                print_times(case, samples, results)
                cpu = {who: column(samples, who, "cpu_ms") for who in samples}
                for other in ("grep", "rg"):
                    compare(f"{case}/{other}", cpu, "heddle", other, results)

    return "pipe-regex", "regular expressions: rows counted (grep -c), matches counted (grep -o)", run


CASES = [stages(), expressions()]
