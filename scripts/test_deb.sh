#!/usr/bin/env bash
# Installs the package in a clean Debian, serves a page from there, purges it, and compares what is left.
#
#   scripts/test_deb.sh PACKAGE [CHROOT]
#
# Root, on a machine with apt's archive in reach: make deb, then sudo make test-deb CHROOT=DIR.
# CHROOT is a Debian made by debootstrap; it is copied, and stays as it is. Without one, debootstrap makes one of the
# release that this machine has.
set -euo pipefail

name=test-deb
# shellcheck source=scripts/chroot.sh
. "$(dirname "$0")/chroot.sh"

if [ $# -lt 1 ] || [ $# -gt 2 ]; then fail "say what to test: scripts/test_deb.sh PACKAGE [CHROOT]"; fi
package=$1
original=${2:-}
[ -e "$package" ] || fail "there is no package${package:+ $package}; run: make deb"
enter_namespace "$@"

server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  leave_root
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# shellcheck source=/dev/null
make_root "$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")" "$original"
cp "$package" "$root/heddle.deb"

# The libraries that it needs stay, so they come before the first list. dpkg's own records change with every package.
IFS=', ' read -r -a libraries <<<"$(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g')"
if ! "${inside[@]}" dpkg-query -W "${libraries[@]}" >/dev/null 2>&1; then
  apt_get update
  apt_get install "${libraries[@]}"
fi
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./tmp -o -path ./var/cache -o -path ./var/lib/apt -o -path './var/lib/dpkg/*-old' -o -path './var/log/apt*' \) -prune -o -printf '%y %m %u:%g %p %l\n' | sort); }
files >"$work/before"

apt_get install /heddle.deb
for file in /usr/bin/heddle /usr/share/man/man1/heddle.1.gz /usr/share/man/man1/heddle-serve.1.gz /usr/share/bash-completion/completions/heddle \
  /usr/share/zsh/vendor-completions/_heddle /usr/share/fish/vendor_completions.d/heddle.fish /etc/default/heddle; do
  # A minimal Debian may be configured to leave manual pages out.
  [ -e "$root$file" ] || [[ $file = *.gz ]] || fail "the package installed no $file"
done
unit=$("${inside[@]}" dpkg -L heddle | grep '/heddle\.service$') || fail "the package has no heddle.service"
[ ! -e "$root/etc/systemd/system/multi-user.target.wants/heddle.service" ] || fail "the installation enabled the service"
"${inside[@]}" heddle --version

# As the unit runs it, with the packaged options, but on a free port of the loopback interface.
mkdir -p "$root/var/www/html"
echo "served from the package" >"$root/var/www/html/index.html"
# shellcheck disable=SC2016
grep -q '^ExecStart=/usr/bin/heddle serve \$HEDDLE_SERVE$' "$root$unit" || fail "the unit does not start /usr/bin/heddle"
# shellcheck source=/dev/null
arguments=$(. "$root/etc/default/heddle" && echo "${HEDDLE_SERVE/:80/127.0.0.1:0}")
# Word by word, as systemd splits it.
read -r -a words <<<"$arguments"
coproc serving { exec chroot "$root" /usr/bin/heddle serve "${words[@]}" 2>&1; }
# shellcheck disable=SC2154
server=$serving_PID
IFS= read -r -t 60 line <&"${serving[0]}" || fail "the server ended, or said nothing for a minute"
port=${line#*http://127.0.0.1:}
port=${port%% *}
[[ $port =~ ^[0-9]+$ ]] || fail "the server did not start: $line"
answer=$(fetch_page 127.0.0.1 "$port")
[[ $answer = "HTTP/1.1 200 "* && $answer = *"served from the package" ]] || fail "instead of the page came: $answer"
kill "$server"
wait "$server" || fail "the server ended with $? after SIGTERM"
server=
rm -r "$root/var/www/html"
rmdir --ignore-fail-on-non-empty "$root/var/www"

apt_get purge heddle
rm -f "$root/heddle.deb"
files >"$work/after"
sed -i '/ \.\/heddle\.deb /d' "$work/before"
if ! diff "$work/before" "$work/after"; then fail "purge left or changed the files above"; fi
# shellcheck disable=SC2154
echo "$name: ok, $(basename "$package") installed, served a page and left nothing in $system"
