#!/usr/bin/env bash
# Builds and tests this checkout in a clean Debian of another release, with its compiler and its libraries.
#
#   scripts/test_debian.sh RELEASE [--libraries] [CHROOT]
#
# Root, on a machine with apt's archive in reach. In the chroot it types what the README says: make serve, whose page it
# fetches, and make test. With --libraries it types make test-libraries instead, which needs no browser, and compiles without
# optimisation what has neither such tests as need it nor primops.
# CHROOT is a Debian made by debootstrap; it is copied, and stays as it is. Without one, debootstrap makes one.
# HEDDLE_SUMMARY=FILE keeps the summary of the tests. With --libraries, HEDDLE_WAIT=FIFO has the suites wait, once they
# are built, until somebody has written to the FIFO: builds do not mind a busy machine. The exit code is 77 where no
# chroot can be made.
set -euo pipefail

release=${1:-}
libraries=no
if [ "${2:-}" = --libraries ]; then
  libraries=yes
  original=${3:-}
else
  original=${2:-}
fi
case $release in
  trixie) name=test-debian13 ;;
  *) name=test-${release:-debian} ;;
esac
# shellcheck source=scripts/chroot.sh
. "$(dirname "$0")/chroot.sh"
[ -n "$release" ] || fail "say which release of Debian: scripts/test_debian.sh trixie"
enter_namespace "$@"
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  leave_root
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

began=$SECONDS
report() { echo "$name: $1 after $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"; }

make_root "$release" "$original"
mkdir "$root/heddle"
git ls-files -z | while IFS= read -r -d '' file; do
  # What is deleted but not committed is gone here too.
  if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
done | tar --null -T - -cf - | tar -C "$root/heddle" -xf -
if [ "$libraries" = yes ]; then
  # The cabal files ask for -O2. The options of a package in the project come after those, but cabal ignores them beside the program's.
  # Modules that ask for -O2 themselves need what they inline.
  project=$root/heddle/cabal.project.debian
  memory=$(sed -n 's/^  ghc-options: \(+RTS .*\)/\1/p' "$project")
  sed -i '/^program-options/,/^  ghc-options/d' "$project"
  for cabal in "$root"/heddle/*/*/*.cabal; do
    package=$(basename "$cabal" .cabal)
    if grep -A 1 -x "package $package" "$project" | grep -q 'optimization: 2' || [[ $package =~ ^heddle-(http|openflow|sched)$ ]]; then
      level=
    else
      level="-O0 -fno-ignore-interface-pragmas "
    fi
    printf 'package %s\n  ghc-options: %s%s\n' "$package" "$level" "$memory"
  done >"$work/options"
  cat "$work/options" >>"$project"
fi
apt_get update
apt_get install make
# shellcheck disable=SC2154
report "$system is there"

if [ "$libraries" = no ]; then
  # The server's first words come last.
  mkfifo "$work/serve"
  "${inside[@]}" make -C /heddle serve LISTEN=127.0.0.1:0 >"$work/serve" 2>&1 &
  server=$!
  port=
  exec {lines}<"$work/serve"
  while IFS= read -r line <&"$lines"; do
    echo "$line"
    if [[ $line =~ http://127\.0\.0\.1:([0-9]+) ]]; then
      port=${BASH_REMATCH[1]}
      break
    fi
  done
  [ -n "$port" ] || fail "make serve ended without serving"
  answer=$(fetch_page 127.0.0.1 "$port")
  [[ $answer = "HTTP/1.1 200 "* && $answer = *"</html>"* ]] || fail "instead of the page came: $answer"
  kill "$server"
  wait "$server" || true
  server=
  exec {lines}<&-
  report "make serve gave the page"
  "${inside[@]}" make -C /heddle test HEDDLE_SUMMARY=/summary && code=0 || code=$?
else
  "${inside[@]}" make -C /heddle build-libraries || fail "the libraries do not build"
  report "the libraries and their suites are built"
  if [ -n "${HEDDLE_WAIT:-}" ]; then read -r <"$HEDDLE_WAIT" || true; fi
  "${inside[@]}" make -C /heddle test-libraries HEDDLE_SUMMARY=/summary && code=0 || code=$?
fi
if [ -n "${HEDDLE_SUMMARY:-}" ] && [ -e "$root/summary" ]; then cp "$root/summary" "$HEDDLE_SUMMARY"; fi
compiler=$("${inside[@]}" ghc --numeric-version)
if [ "$code" -ne 0 ]; then
  report "FAILED with GHC $compiler"
  exit 1
fi
report "ok with GHC $compiler"
