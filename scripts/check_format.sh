#!/usr/bin/env bash
# Every Haskell file is as Ormolu writes it.
set -euo pipefail
others=$(scripts/sources.sh | xargs -d '\n' -P "$(nproc)" -n 8 sh -c '
  for file; do ormolu --cabal-default-extensions --mode check "$file" >/dev/null 2>&1 || echo "  $file"; done' check)
if [ -n "$others" ]; then
  printf '%s\ncheck-format: Ormolu would change the files above. Run: make format\n' "$others" >&2
  exit 1
fi
echo "check-format: ok"
