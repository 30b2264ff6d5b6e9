#!/usr/bin/env bash
# Makes a Debian package of the built command.
#
#   scripts/make_deb.sh FOLDER    writes heddle_VERSION_ARCH.deb there
#   scripts/make_deb.sh --tools   only says which tools are missing
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD

fail() {
  echo "make deb: $1" >&2
  exit 1
}

if [ $# -ne 1 ]; then fail "say where: scripts/make_deb.sh FOLDER"; fi
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need dpkg-buildpackage dpkg-dev
need dh debhelper
need lowdown lowdown
need python3 python3
if [ "${#missing[@]}" -gt 0 ]; then fail "not installed: ${missing[*]}; run: apt-get install ${missing[*]}"; fi
if [ "$1" = --tools ]; then exit 0; fi
if [ ! -x bin/heddle ]; then fail "bin/heddle has not been built; run: make command"; fi

version=$(sed -n 's/^version: *//p' app/heddle/heddle.cabal)
if [ "$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)" != "$version" ]; then
  fail "packaging/debian/changelog does not begin with version $version, which app/heddle/heddle.cabal has; add an entry"
fi

mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$folder/heddle-$version
rm -rf "$work"
mkdir "$work"
cp -r packaging/debian "$work/debian"
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
# The command is already stripped; its compiler's flags are not dpkg's.
if ! (cd "$work" && HEDDLE_TREE=$tree dpkg-buildpackage --build=binary --no-sign --no-check-builddeps) >"$folder/build.log" 2>&1; then
  tail -n 20 "$folder/build.log" >&2
  fail "dpkg-buildpackage failed; all it said is in $folder/build.log"
fi
rm -rf "$work"
package=$folder/heddle_${version}_$(dpkg --print-architecture).deb
[ -e "$package" ] || fail "there is no $package, though dpkg-buildpackage succeeded; see $folder/build.log"
echo "$package"
