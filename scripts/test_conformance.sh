#!/usr/bin/env bash
# h2spec against HTTP/2, and Autobahn's cases (by kosoku) against both sides of WebSocket. The two tools come from Go's
# module proxy and from PyPI into the build folder; the suites look for them in the PATH.
#
#   scripts/test_conformance.sh BUILDDIR CABAL-COMMAND...
set -euo pipefail
tools=$1/conformance
shift

missing=()
command -v go >/dev/null || missing+=(golang-go)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "make test-conformance: not installed: ${missing[*]}; run: apt-get install ${missing[*]}" >&2
  exit 1
fi

mkdir -p "$tools"
if [ ! -x "$tools/h2spec" ]; then
  GOBIN=$(cd "$tools" && pwd) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible 2>"$tools/go.log" || {
    tail -n 5 "$tools/go.log" >&2
    echo "make test-conformance: Go cannot install h2spec" >&2
    exit 1
  }
fi
if [ ! -x "$tools/python/bin/kosoku" ]; then
  python3 -m venv "$tools/python"
  "$tools/python/bin/pip" install --quiet kosoku==0.1.0
fi
PATH=$(cd "$tools" && pwd):$(cd "$tools/python/bin" && pwd):$PATH
export PATH
"$@" --test-options='-p h2spec' heddle-http-h2-test
"$@" heddle-websocket-conformance
