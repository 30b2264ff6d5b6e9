#!/usr/bin/env bash
# GHCi loads every library and every program from its source.
#
#   scripts/test_repl.sh [TARGET...]
#
# TARGET is what scripts/cabal repl takes: lib:heddle-io, exe:heddle, heddle-io-test. Without one, all libraries and
# programs are tried, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
  while IFS= read -r file; do
    name=$(basename "$file" .cabal)
    if grep -q '^library *$' "$file"; then targets+=("lib:$name"); fi
    while IFS= read -r program; do targets+=("exe:$program"); done < <(sed -n 's/^executable *//p' "$file")
  done < <(git ls-files '*.cabal' | grep -v '^bench/')
fi

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for target in "${targets[@]}"; do
  began=$SECONDS
  # GHCi ends without an error when a module does not load, so what it says is what counts.
  if scripts/cabal repl -v1 "$target" </dev/null >"$output" 2>&1 && loaded=$(grep -o 'Ok, [a-z0-9]* modules\{0,1\} loaded' "$output" | tail -n 1); then
    echo "$target: $loaded ($((SECONDS - began)) s)"
  else
    tail -n 30 "$output"
    echo "$target: FAILED"
    failed=$((failed + 1))
  fi
done
if [ "$failed" -gt 0 ]; then
  echo "test-repl: $failed of ${#targets[@]} do not load"
  exit 1
fi
echo "test-repl: all ${#targets[@]} load"
