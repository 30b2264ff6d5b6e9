#!/usr/bin/env bash
# Writes the source packages of the libraries, of the heddle command and of heddle-testkit, which their tests need.
#
# usage: sdist.sh FOLDER
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "usage: sdist.sh FOLDER" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
mkdir -p "$1"
rm -f "$1"/heddle*.tar.gz
names=()
for file in {app,base,cluster,measure,net,sched,stream,test-support}/*/*.cabal; do
  names+=("$(basename "$file" .cabal)")
done
scripts/cabal sdist -v0 -o "$(realpath "$1")" "${names[@]}"
echo "sdist: ${#names[@]} source packages in $1"
