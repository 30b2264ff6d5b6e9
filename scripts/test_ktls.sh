#!/usr/bin/env bash
# Runs the suites of TLS that send files in Debian's User Mode Linux, a kernel that is a program: it has kTLS, which few of the kernels
# have that tests run on. The machine it makes has this one's files, as they are, and a loopback of its own.
#
#   scripts/test_ktls.sh HEDDLE-TLS-TEST HEDDLE-TEST   the two suites' programs; the latter finds heddle in bin/
#
# The exit code is 77 where that kernel does not run to its end, for instance because it may not use ptrace.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
pwd >"$work/root"
printf '%s\n' "$1" >"$work/tls-test"
printf '%s\n' "$2" >"$work/test"

# The first process. It ends by switching the machine off; the answer is in a file.
cat >"$work/init" <<'END'
#!/bin/bash
here=$(dirname "$0")
root=$(cat "$here/root")
export PATH=$root/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HEDDLE_KTLS=1 TASTY_COLOR=never HOME=$here/tmp TMPDIR=$here/tmp LANG=C.UTF-8
mount -t proc none /proc
mount -t sysfs none /sys
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mount -t tmpfs -o size=1g none "$here/tmp"
ip link set lo up
# This kernel's modules are not in /lib/modules, which a machine that needs none does not have. The kernel asks for ciphers itself.
mkdir -p "$here/lib"
ln -s /usr/lib/uml/modules "$here/lib/modules"
printf '#!/bin/sh\nexec /sbin/modprobe -d "%s" "$@"\n' "$here" >"$here/modprobe"
chmod +x "$here/modprobe"
echo "$here/modprobe" >/proc/sys/kernel/modprobe
"$here/modprobe" tls || echo "test_ktls.sh: this kernel has no kTLS" >&2
# GHC's runtime reserves a terabyte, which this kernel walks through page by page; with a limit it takes two thirds of that.
ulimit -v 33554432
(
  set -e
  cd "$root/net/heddle-tls"
  "$(cat "$here/tls-test")" -p '/transfers/ || /kTLS/'
  cd "$root/app/heddle"
  "$(cat "$here/test")" -p '/heddle serve over TLS/ && !/Chromium/'
)
echo $? >"$here/code"
sync
echo o >/proc/sysrq-trigger
sleep 60
END
chmod +x "$work/init"

: >"$work/log"
# Its memory is a file in TMPDIR, which has no blocks until they are used.
TMPDIR=$work timeout -k 5 600 linux.uml mem=2G root=/dev/root rootfstype=hostfs hostfs=/ rw init="$work/init" uml_dir="$work/" con=null con0=fd:0,fd:1 quiet \
  </dev/null >"$work/log" 2>&1 &
machine=$!
trap 'kill "$machine" 2>/dev/null || true; rm -rf "$work"' EXIT
tail --pid="$machine" -n +1 -f "$work/log" | sed -u 's:\r::' || true
wait "$machine" || true
trap 'rm -rf "$work"' EXIT
if [ ! -e "$work/code" ]; then
  echo "test_ktls.sh: User Mode Linux does not run here" >&2
  exit 77
fi
code=$(cat "$work/code")
if [ "$code" -eq 0 ]; then echo "kTLS: all passed"; fi
exit "$code"
