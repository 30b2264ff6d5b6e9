#!/usr/bin/env bash
# Every Haskell file is as Ormolu writes it.
set -euo pipefail
failed=0
while read -r file; do
  ormolu --cabal-default-extensions --mode check "$file" >/dev/null 2>&1 || { echo "  $file"; failed=1; }
done < <(scripts/sources.sh)
if [ "$failed" -ne 0 ]; then
  echo "check-format: Ormolu would change the files above. Run: make format" >&2
  exit 1
fi
echo "check-format: ok"
