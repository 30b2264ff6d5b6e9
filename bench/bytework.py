"""The byte work against bytestring, text, aeson, hashable, libsimdjson and C: the cases of `run.py bytes`.

The programs are those of bench/bytes, and bytes_* of bench/c. Each does one job in several ways, a given number of
times, and reads the clocks itself, after as much work that is not counted. All ways of a case take turns on one core, do
the job equally often, and must give the same answer. Ratios are of CPU time.
"""
import collections
import os
import statistics
import subprocess

import documents
from harness import BENCH, BUILD, Unable, Workplace, how_to_get, in_turn, ratios, spread

# How long a run takes, in nanoseconds: at least this for the fastest way, at most this for the slowest.
LEAST, MOST = 0.03e9, 1e9

# All get the same allocation area, so that none collects more often than another.
AREA = "16m"

# A program and the way in it.
Contender = collections.namedtuple("Contender", "program way")

# Nanoseconds of wall and CPU time, bytes that were allocated, and what came out.
Run = collections.namedtuple("Run", "wall cpu bytes answer")


class BytePlace(Workplace):
    """One core; the documents."""

    def __init__(self):
        super().__init__()
        self.documents = self.path("documents")
        documents.write(self.documents)

    def describe(self, options):
        return f"core {self.cores[0]}; {options.rounds} rounds; estimate [95 % interval]"

    def once(self, who, n):
        flags = ["+RTS", f"-A{AREA}"] if who.program.startswith("bench-") else []
        return Run(*self.say("timed", 4, who, n, flags))

    def memory(self, program, way, n, flags):
        """The peak in bytes above the memory before the work, and the size of the result."""
        return self.say("memory", 2, Contender(program, way), n, ["+RTS", "-A1m", *flags])

    def say(self, word, count, who, n, flags):
        """What a program prints for a way: a word and `count` numbers."""
        program = os.path.join(BUILD, who.program)
        if not os.path.exists(program):
            raise Unable(f"{who.program} is not there; {how_to_get(program)}")
        command = [program, who.way, str(n), *flags]
        environment = {**os.environ, "HEDDLE_DOCUMENTS": self.documents}
        pipe = subprocess.PIPE
        process = self.start(command, {self.cores[0]}, stdout=pipe, stderr=pipe, env=environment)
        try:
            output, complaint = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            raise Unable(f"{' '.join(command)} did not end within 300 s") from None
        finally:
            self.stop(process)
        words = output.decode(errors="replace").split()
        if process.returncode != 0 or len(words) != 1 + count or words[0] != word:
            said = complaint.decode(errors="replace").strip().splitlines()[-1:] or [output.decode(errors="replace")]
            raise Unable(f"{' '.join(command)} ended with {process.returncode}; it said: {said[0]}")
        return [int(value) for value in words[1:]]

    def size(self, contenders):
        """A size at which no contender is too fast to be measured or too slow to wait for."""
        n = 1
        while True:
            times = [max(self.once(who, n).cpu, 1) for who in contenders]
            if min(times) >= LEAST or max(times) >= MOST / 2:
                return n
            n = max(n + 1, min(n * 16, int(n * min(1.2 * LEAST / min(times), MOST / max(times)))))


def contest(case, contenders, results, place, options, unit=1, agree=True):
    """All of them in turn; the first one is ours. Prints ns of each thing, and our ratio to each of the others."""
    able = {}
    for name, who in contenders.items():
        try:
            place.once(who, 1)
            able[name] = who
        except Unable as reason:
            print(f"  without {name}: {reason}")
    ours = next(iter(contenders))
    if ours not in able:
        raise Unable(f"{ours} did not run")
    n = place.size(able.values())
    samples = {name: [] for name in able}
    for name in in_turn(able, options.rounds):
        samples[name].append(place.once(able[name], n))
    answers = {name: {run.answer for run in runs} for name, runs in samples.items()}
    if agree and len(set.union(*answers.values())) != 1:
        raise Unable(f"the answers for {n} are not the same: {answers}")
    for name, runs in samples.items():
        each = [run.cpu / n / unit for run in runs]
        allocated = statistics.median(run.bytes / n / unit for run in runs)
        print(f"  {case:26} {name:20} {spread(each, '.4g'):>32} ns  {allocated:>10.4g} bytes")
        results.measured(case, name, cpu_ns=each)
    for name in able:
        if name != ours:
            ratios(f"{case}/{name}", [run.cpu for run in samples[ours]], [run.cpu for run in samples[name]], results)
    return samples


# ------------------------------------------------------------------------------------------- numbers


def decimals():
    program = "bench-bytes-decimals"
    peers = ("bytestring", "bytestring-list", "bytestring-prim", "show")
    # From the oldest of the post's versions to the last.
    ancestors = ("naive", "count4-one", "count-one", "count-two-quot-rem", "count-two")

    def run(place, options, results):
        # A block after the other, as lazy strings are consumed.
        contenders = {way: Contender(program, way) for way in (*peers, *ancestors)}
        samples = contest("decimal", {"heddle": Contender(program, "heddle-blocks")} | contenders, results, place, options)
        # One string with all of them; and one for each eight.
        for case, ways in (("decimal-strict", ("heddle", "bytestring-strict")), ("decimal-small", ("heddle-small", "bytestring-small"))):
            contenders = {way.split("-")[0]: Contender(program, way) for way in ways}
            if case == "decimal-strict":
                contenders |= {f"c-{way}": Contender("bytes_decimal", way) for way in ("table", "swar")}
            contest(case, contenders, results, place, options)
        for before, after in zip(("show", *ancestors), ancestors):
            if before in samples and after in samples:
                values = ([run.cpu for run in samples[way]] for way in (before, after))
                ratios(f"decimal-ancestors-{before}/{after}", *values, results)

    return "decimal", "whole numbers of all lengths, and a comma behind each", run


def doubles():
    program = "bench-bytes-doubles"
    sides = {
        "write": (("bytestring", "scientific", "aeson"), "snprintf"),
        "read": (("attoparsec", "scientific", "read"), "strtod"),
    }

    def run(place, options, results):
        for side, (peers, c) in sides.items():
            contenders = {way: Contender(program, f"{side}-{way}") for way in ("heddle", *peers)}
            contenders[c] = Contender("bytes_double", c)
            # Some write longer texts than the shortest.
            contest(f"double-{side}", contenders, results, place, options, agree=side == "read")

    return "double", "floating point numbers, as short as they can be, and read again", run


# --------------------------------------------------------------------------------------------- UTF-8


def utf8():
    program, twin = "bench-bytes-utf8", "bytes_utf8_simdjson"

    def run(place, options, results):
        for text in ("ascii", "cjk", "mixed"):
            for size in ("1k", "32k", "1m"):
                what = f"validate-{text}-{size}"
                contenders = {
                    "heddle": Contender(program, f"{what}-heddle"),
                    "simdjson": Contender(twin, f"{what}-simdjson"),
                }
                contest(what, contenders, results, place, options)
        for what in ("totext", "encode", "replace"):
            for text in ("ascii", "cjk", "mixed", *(["bad"] if what == "replace" else [])):
                for size in ("1k", "32k", "1m"):
                    case = f"{what}-{text}-{size}"
                    contenders = {who: Contender(program, f"{case}-{who}") for who in ("heddle", "text")}
                    # text does not replace as Unicode recommends.
                    contest(case, contenders, results, place, options, agree=what != "replace")

    return "utf8", "validating, decoding, encoding, replacing", run


# ---------------------------------------------------------------------------------------------- JSON


DOCUMENTS = ("twitter", "records", "numbers")


def encoding():
    program = "bench-bytes-encode"

    def run(place, options, results):
        for name in (*DOCUMENTS, "counts"):
            who = ("heddle", "aeson", *(["ancestor"] if name == "counts" else []))
            contest(f"encode-{name}", {way: Contender(program, f"{way}-{name}") for way in who}, results, place, options)

    return "encode", "typed values to JSON", run


def decoding():
    program = "bench-bytes-decode"

    def run(place, options, results):
        for name in DOCUMENTS:
            contenders = {way: Contender(program, f"{way}-{name}") for way in ("heddle", "aeson")}
            contest(f"decode-{name}", contenders, results, place, options)

    return "decode", "JSON to typed values", run


def checking():
    def run(place, options, results):
        for name in DOCUMENTS:
            contenders = {
                "heddle": Contender("bench-bytes-check", f"check-{name}"),
                "simdjson": Contender("bytes_json_simdjson", f"simdjson-{name}"),
                "aeson": Contender("bench-bytes-check", f"aeson-{name}"),
            }
            contest(f"check-{name}", contenders, results, place, options)
            contenders = {
                "heddle": Contender("bench-bytes-check", f"minify-{name}"),
                "simdjson": Contender("bytes_json_simdjson", f"minify-{name}"),
            }
            contest(f"minify-{name}", contenders, results, place, options)

    return "check", "JSON checked, and without its white space", run


# ------------------------------------------------------------------------------------------- memory


def memory():
    copies = 20
    # With the collector as it is, and with one that compacts instead of copying.
    collectors = {"": [], "-compacting": ["-c"]}

    def run(place, options, results):
        for job in ("decode", "encode"):
            for name, flags in collectors.items():
                for who in ("heddle", "aeson"):
                    peak, result = place.memory(f"bench-bytes-{job}-memory", who, copies, flags)
                    case = f"{job}-memory{name}/{who}"
                    print(f"  {case:30} at most {peak / 1e6:8.1f} MB, the result {result / 1e6:8.1f} MB")
                    results.measured(f"{job}-memory{name}", who, peak_bytes=[peak], result_bytes=[result])
                    if who == "heddle":
                        results.ratio(f"{job}-memory{name}/result", [peak / result])

    return "memory", f"the peak memory for {copies} copies of records.json, against the size of the result", run


# ------------------------------------------------------------------------------------------- hashing


def hashing():
    program = "bench-bytes-hash"

    def run(place, options, results):
        for size in (5, 8, 16, 45, 64, 128, 512, 4096):
            contenders = {
                "heddle": Contender(program, f"sip13-heddle-{size}"),
                "c": Contender("bytes_siphash", f"sip13-{size}"),
            }
            contest(f"sip13-{size}", contenders, results, place, options)
            # Another hash: another answer.
            contenders = {
                "heddle": Contender(program, f"sip13-heddle-{size}"),
                "fnv1": Contender(program, f"fnv1-{size}"),
                "hashable": Contender(program, f"hashable-{size}"),
            }
            contest(f"sip13-{size}", contenders, results, place, options, agree=False)

    return "hash", "SipHash-1-3 of a few bytes and of many", run


def flooding():
    program = "bench-bytes-flood"
    keys, few = 65536, 4096

    def run(place, options, results):
        for kind in ("strings", "pairs", "ints"):
            for way, n in (("keyed", keys), ("plain", few)):
                names = (f"{way}-{kind}", f"{way}-{kind}-random")
                samples = {name: [] for name in names}
                for name in in_turn(names, options.rounds):
                    samples[name].append(place.once(Contender(program, name), n).cpu)
                for name in names:
                    each = [cpu / n for cpu in samples[name]]
                    print(f"  {name:26} {n:>7,} keys {spread(each, '.4g'):>32} ns")
                    results.measured("flood", name, cpu_ns=each)
                ratios(f"flood-{way}-{kind}/random", samples[names[0]], samples[names[1]], results)

    return "flood", f"{keys:,} keys chosen to collide, against random ones, into a HashMap", run


# ------------------------------------------------------------------------------------------ deriving

# The package database of `make build`.
PACKAGES = os.path.join(os.path.dirname(BENCH), "dist-newstyle", "packagedb")

LIBRARIES = {
    "heddle": ("import Heddle.Json", "FromJson", "ToJson"),
    "aeson": ("import Data.Aeson", "FromJSON", "ToJSON"),
}


def records(count, library, encoders):
    """A module of as many records with eight fields each, with derived decoders and perhaps encoders."""
    header, decoder, encoder = LIBRARIES[library]
    classes = f"{decoder}, {encoder}" if encoders else decoder
    types = ("Int", "Text", "Maybe Text", "Double", "Bool", "[Int]", "Maybe Int", "Text")
    lines = ["{-# LANGUAGE DeriveAnyClass, DeriveGeneric, DerivingStrategies #-}", "module Records where"]
    lines += ["import Data.Text (Text)", "import GHC.Generics (Generic)", header]
    for r in range(count):
        fields = ", ".join(f"r{r}f{i} :: !({kind})" for i, kind in enumerate(types))
        lines.append(f"data R{r} = R{r} {{{fields}}} deriving stock (Generic) deriving anyclass ({classes})")
    return "\n".join(lines) + "\n"


def deriving():
    """The compiler's time and memory, at -O1, which is where most programs are compiled."""

    def compiled(place, count, library, encoders):
        folder = place.path(f"records-{count}-{library}-{encoders}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "Records.hs"), "w", encoding="ascii") as file:
            file.write(records(count, library, encoders))
        release = subprocess.run(["ghc", "--numeric-version"], check=True, capture_output=True, text=True).stdout.strip()
        database = os.path.join(PACKAGES, f"ghc-{release}")
        if not os.path.exists(database):
            raise Unable("heddle-json is not built; make build")
        command = ["ghc", "-O1", "-v0", "-fforce-recomp", "-package-db", database, "-package", "heddle-json", "-c", "Records.hs"]
        process = place.start(command, {place.cores[0]}, cwd=folder, stderr=subprocess.PIPE)
        complaint = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        place.started.remove(process)
        if process.returncode:
            raise Unable(f"the records of {library} were not compiled: {complaint}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    def run(place, options, results):
        for name, count, encoders in (("derive-decoders-20", 20, False), ("derive-both-100", 100, True)):
            times, peaks = ({who: [] for who in LIBRARIES} for _ in range(2))
            for who in in_turn(LIBRARIES, min(options.rounds, 3)):
                seconds, kilobytes = compiled(place, count, who, encoders)
                times[who].append(seconds)
                peaks[who].append(kilobytes)
            for who in LIBRARIES:
                print(f"  {name} {who:8} {spread(times[who], '.1f')} s, at most {max(peaks[who]) / 1e3:,.0f} MB")
                results.measured(name, who, cpu_ms=[1e3 * value for value in times[who]], kb=peaks[who])
            ratios(f"{name}/aeson", times["heddle"], times["aeson"], results)

    return "deriving", "compiling derived decoders of 20 records, and decoders and encoders of 100, against aeson", run


CASES = [decimals(), doubles(), utf8(), encoding(), decoding(), memory(), checking(), hashing(), flooding(), deriving()]
