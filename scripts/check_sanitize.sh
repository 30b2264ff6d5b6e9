#!/usr/bin/env bash
# The C that reads untrusted bytes, under AddressSanitizer and UndefinedBehaviorSanitizer, on random input between guard
# pages, at every level of instructions that the processor has (test-support/sanitize/).
#
#   HEDDLE_SANITIZE_SECONDS   how long (30)
#   HEDDLE_SANITIZE_SEED      a number; the time if not given
#   HEDDLE_SANITIZE_ROUND     one round of that seed alone, as a failure says it
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-dist-newstyle}/sanitize
mkdir -p "$build"
# No -O2: what reads too far must not be optimised away. Options of the cabal files that decide what is compiled stay out.
flags=(-std=gnu11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
  -Wall -Wextra -Wundef -Werror -Ibase/heddle-bytes/cbits -Ibase/heddle-json/cbits -Isched/heddle-walk/cbits -Ibase/heddle-prim/cbits
  -Inet/heddle-websocket/cbits -Inet/heddle-http/cbits -Itest-support/sanitize)

sources=(base/heddle-bytes/cbits/*.c base/heddle-json/cbits/*.c sched/heddle-walk/cbits/*.c net/heddle-websocket/cbits/*.c
  base/heddle-prim/cbits/heddle_cpu.c net/heddle-http/cbits/*.c test-support/sanitize/*.c)
objects=()
for source in "${sources[@]}"; do
  object="$build/${source//\//_}.o"
  objects+=("$object")
  # A header may have changed as well: all are compiled again unless everything is older.
  if [ ! -e "$object" ] || [ -n "$(find "$(dirname "$source")" */heddle-*/cbits test-support/sanitize -name '*.[ch]' -newer "$object" -print -quit)" ]; then
    gcc "${flags[@]}" -c "$source" -o "$object"
  fi
done
gcc "${flags[@]}" "${objects[@]}" -lnghttp2 -lm -lz -o "$build/kernels"

# The same sources as other machines compile them: without a warning, and nothing left of the kernels for x86-64.
for source in base/heddle-prim/cbits/*.c base/heddle-bytes/cbits/*.c base/heddle-json/cbits/*.c net/heddle-websocket/cbits/*.c stream/heddle-filter/cbits/*.c; do
  gcc -std=gnu11 -O2 -Wall -Wextra -Wundef -Werror -Ibase/heddle-prim/cbits/plain-kernels -Ibase/heddle-prim/cbits \
    -Ibase/heddle-bytes/cbits -c "$source" -o "$build/plain.o"
  if objdump -d "$build/plain.o" | grep -Eq '%[yz]mm|pshufb|popcnt|cpuid'; then
    echo "check-sanitize: $source has code for x86-64 although heddle_plain_kernels.h is there" >&2
    exit 1
  fi
done

export ASAN_OPTIONS=abort_on_error=0:handle_abort=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
"$build/kernels" "${HEDDLE_SANITIZE_SECONDS:-30}" "${HEDDLE_SANITIZE_SEED:-}" "${HEDDLE_SANITIZE_ROUND:-}"
