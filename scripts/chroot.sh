# Sourced by the tests that need a clean Debian: a chroot in a mount namespace of its own, so that nothing stays
# mounted and nothing stays on the disk, however the test ends. Root only.
#
# Before it is sourced: $name, which errors begin with. After enter_namespace and make_root: $work, a temporary folder,
# $root, the chroot in it, $inside, which begins a command there, and $system, its name. The script that sources this calls leave_root when it ends.
# shellcheck shell=bash

fail() {
  # shellcheck disable=SC2154
  echo "$name: $1" >&2
  exit "${2:-1}"
}

# What ends with this has tried nothing; automake's test drivers take it for a skipped test, too.
no_chroot=77

# Starts the script again, in a namespace of its own.
enter_namespace() {
  [ "$(id -u)" -eq 0 ] || fail "only root can enter a chroot; run: sudo make $name" "$no_chroot"
  if [ "${HEDDLE_NAMESPACE:-}" != own ]; then
    unshare --mount --propagation private true || fail "this system lets nobody have a mount namespace of their own" "$no_chroot"
    HEDDLE_NAMESPACE=own exec unshare --mount --propagation private -- "$0" "$@"
  fi
  work=$(mktemp -d "/var/tmp/heddle-$name-XXXXXX")
  root=$work/root
}

# make_root RELEASE [CHROOT]: what debootstrap makes of the release, or a copy of a chroot that it has made before.
make_root() {
  local release=$1 original=${2:-}
  if [ -n "$original" ]; then
    [ -d "$original/var/lib/dpkg" ] || fail "$original is not a Debian; make one with: debootstrap --variant=minbase $release $original"
    mkdir "$root"
    tar -C "$original" --one-file-system --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* -cf - . | tar -C "$root" -xpf -
  else
    command -v debootstrap >/dev/null || fail "debootstrap is not installed; run: apt-get install debootstrap, or name a chroot: make $name CHROOT=DIR" "$no_chroot"
    debootstrap --variant=minbase "$release" "$root" >"$work/debootstrap.log" 2>&1 || {
      tail -n 5 "$work/debootstrap.log" >&2
      fail "debootstrap could not make a Debian '$release'; name a chroot: make $name CHROOT=DIR" "$no_chroot"
    }
  fi
  # What a crash would leave of it is of no use: dpkg need not wait for the disk after each file.
  mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  mkdir -p "$root/proc" "$root/sys" "$root/dev"
  mount -t proc proc "$root/proc"
  # MPICH's libraries look for cores and networks there.
  mount --rbind --make-rslave /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  if [ -e /etc/resolv.conf ]; then cp -L /etc/resolv.conf "$root/etc/resolv.conf"; fi
  grep -qs localhost "$root/etc/hosts" || echo "127.0.0.1 localhost" >"$root/etc/hosts"
  # What begins each command in there; not a function, so that $! is the command's.
  inside=(chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"})
  # shellcheck disable=SC2034 source=/dev/null
  system=$(. "$root/etc/os-release" && echo "$PRETTY_NAME")
}

apt_get() {
  "${inside[@]}" apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >"$work/apt.log" 2>&1 || {
    tail -n 20 "$work/apt.log" >&2
    fail "apt-get $1 failed in the chroot"
  }
}

leave_root() {
  umount -l "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true
  # ip mounts the folder of its network namespaces on itself.
  umount -l "$root/run/netns" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}

# fetch_page ADDRESS PORT: what a GET of / answers, without needing a client.
fetch_page() {
  local connection
  exec {connection}<>"/dev/tcp/$1/$2"
  printf 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&"$connection"
  cat <&"$connection"
  exec {connection}>&-
}
