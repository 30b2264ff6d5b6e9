#!/usr/bin/env bash
# h2spec against HTTP/2, Autobahn's cases (by kosoku) against both sides of WebSocket and against wai-websockets, testssl.sh and
# sslyze against TLS. All but testssl.sh come from Go's module proxy and from PyPI into the build folder; the suites look for them in
# the PATH. HEDDLE_NIGHTLY adds Autobahn's cases with large messages, which take a quarter of an hour.
#
#   scripts/test_conformance.sh BUILDDIR          runs them; the suites have been built
#   scripts/test_conformance.sh BUILDDIR --fetch  only fetches what is not there
set -euo pipefail
builddir=$1
tools=$1/conformance

mkdir -p "$tools"
not_fetched() {
  tail -n 5 "$1" >&2
  echo "make test-conformance: cannot fetch $2" >&2
  exit 1
}
if [ ! -x "$tools/h2spec" ]; then
  GOBIN=$(cd "$tools" && pwd) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible >"$tools/log" 2>&1 || not_fetched "$tools/log" h2spec
fi
if [ ! -x "$tools/python/bin/kosoku" ] || [ ! -x "$tools/python/bin/sslyze" ]; then
  python3 -m venv "$tools/python"
  "$tools/python/bin/pip" install --quiet kosoku==0.1.0 sslyze==6.3.1 >"$tools/log" 2>&1 || not_fetched "$tools/log" "kosoku and sslyze"
fi
if [ "${2:-}" = --fetch ]; then exit 0; fi
PATH=$(cd "$tools" && pwd):$(cd "$tools/python/bin" && pwd):$PATH
export PATH
unset HEDDLE_SUMMARY
suite() { scripts/test.py --minutes 60 "$builddir" "$@"; }
suite --pattern h2spec heddle-http-h2-test
suite heddle-websocket-conformance
suite --pattern Autobahn heddle-wai-apps-test
scripts/scan_tls.py bin/heddle testssl sslyze
