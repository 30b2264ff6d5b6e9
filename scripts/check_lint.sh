#!/usr/bin/env bash
# HLint with the rules of .hlint.yaml. The rules about imports bind the libraries and the programs;
# tests, what they share, and benchmarks may import what they like.
set -euo pipefail
shipped=() free=()
while read -r file; do
  case "/$file" in
    /test-support/*) free+=("$file") ;;
    */src/* | /app/*/app/*) shipped+=("$file") ;;
    *) free+=("$file") ;;
  esac
done < <(scripts/sources.sh)
# As many processes as processors: threads of one would spend much of their time on collecting together.
lint() {
  local some=()
  while [ "$1" != -- ]; do
    some+=("$1")
    shift
  done
  shift
  [ $# -eq 0 ] || printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n "$((($# + $(nproc) - 1) / $(nproc)))" hlint -j1 "${some[@]}"
}
failed=0
lint -- "${shipped[@]}" || failed=1
lint --ignore='Avoid restricted module' -- "${free[@]}" || failed=1
if [ "$failed" -ne 0 ]; then
  echo "check-lint: follow the hints above, or silence one where it misleads, with a reason:" >&2
  echo '  {- HLINT ignore name "hint" -} -- because …' >&2
  exit 1
fi
echo "check-lint: ok"
