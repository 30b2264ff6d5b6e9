#!/usr/bin/env bash
# Runs every test suite, one after the other, and ends with a summary of them all, in which what failed is told again.
#
# usage: test.sh CABAL-COMMAND...
#
# HEDDLE_SUMMARY=FILE writes where it ran, and a line for each suite.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Says how long each suite took, behind its result.
clock() {
  local line began=0
  while IFS= read -r line; do
    case $line in
      "Test suite "*": RUNNING"*) began=$SECONDS ;;
      "Test suite "*": PASS" | "Test suite "*": FAIL") line="$line ($((SECONDS - began)) s)" ;;
    esac
    printf '%s\n' "$line"
  done
}

"$@" 2>&1 | clock | tee "$log"
code=${PIPESTATUS[0]}

echo
echo "Test summary"
if [ -n "${HEDDLE_SUMMARY:-}" ]; then
  # shellcheck source=/dev/null
  echo "# GHC $(ghc --numeric-version), $(. /etc/os-release && echo "$PRETTY_NAME"), $(uname -m), $(date +%F)" >"$HEDDLE_SUMMARY"
fi
awk -v file="${HEDDLE_SUMMARY:-}" '
  # A test that failed, and what it says: the lines below it that are further in.
  function indent(line) { match(line, /^ */); return RLENGTH }
  telling > 0 && (indent($0) <= inside || /^$/) { telling = 0 }
  telling > 0 { complaints = complaints substr($0, 1, 1000) "\n"; telling-- }
  /^ .*: +FAIL( \([0-9.]+s\))?$/ { inside = indent($0); telling = 8; complaints = complaints suite ": " $0 "\n" }

  # Of a suite that failed without such a test, its last lines.
  { recent[NR % 15] = $0 }
  function last_lines(  i, told) {
    for (i = NR - 14; i < NR; i++) if (i >= began) told = told "  " substr(recent[i % 15], 1, 1000) "\n"
    return suite ":\n" told
  }

  /^Test suite .*: RUNNING/ { suite = $3; sub(/:$/, "", suite); detail = ""; skipped = 0; began = NR + 1; before = complaints }
  # Of a test that needs a program that is not there.
  /\(skipped: .*: +OK/ { skipped++; left_out++ }
  /^All [0-9]+ tests? passed/ { detail = $2 - skipped " passed"; passed += $2 - skipped }
  /^[0-9]+ out of [0-9]+ tests? failed/ { detail = $1 " of " $4 " failed"; failed += $1; passed += $4 - $1 }
  /^Test suite .*: (PASS|FAIL) \([0-9]+ s\)$/ {
    name = $3; sub(/:$/, "", name)
    if (name != suite) detail = ""
    if (skipped) detail = detail ", " skipped " skipped"
    took = substr($5, 2)
    printf "  %-32s %s  %-23s %5d s\n", name, $4, detail, took
    if (file != "") print name, $4, detail >>file
    suites++
    seconds += took
    if ($4 == "FAIL") {
      bad++
      named = named (bad == 1 ? ": " : ", ") suite
      if (complaints == before) complaints = complaints last_lines()
    }
  }
  END {
    if (complaints != "") printf "\nWhat failed:\n%s\n", complaints
    printf "%d suites (%d failed%s), %d tests passed, %d failed, %d skipped, in %d min %d s\n", suites, bad, named, passed, failed, left_out, seconds / 60, seconds % 60
  }
' "$log"
if grep -q '^All 0 tests passed' "$log"; then
  echo "no test matches the pattern"
  code=1
fi
if [ "$code" -ne 0 ]; then
  echo "FAILED (exit code $code)"
else
  echo "PASSED"
fi
exit "$code"
