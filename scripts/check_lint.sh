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
failed=0
if [ "${#shipped[@]}" -gt 0 ]; then hlint -j "${shipped[@]}" || failed=1; fi
if [ "${#free[@]}" -gt 0 ]; then hlint -j --ignore='Avoid restricted module' "${free[@]}" || failed=1; fi
if [ "$failed" -ne 0 ]; then
  echo "check-lint: follow the hints above, or silence one where it misleads, with a reason:" >&2
  echo '  {- HLINT ignore name "hint" -} -- because …' >&2
  exit 1
fi
echo "check-lint: ok"
