#!/usr/bin/env bash
# Installs what Heddle needs from the archive of Debian or Ubuntu, and nothing that is there already.
#
#   scripts/setup.sh command     what building the heddle command needs
#   scripts/setup.sh libraries   the same, and what building everything and testing the libraries needs
#   scripts/setup.sh everything  the same, and what testing the command and checking everything needs
#   scripts/setup.sh bench       the same, and the programs that Heddle is measured against
#   scripts/setup.sh conformance everything, and what make test-conformance needs
#   scripts/setup.sh ktls        everything, and what make test-ktls needs
#   scripts/setup.sh everything conformance ktls   all that several of them need, at once
set -euo pipefail

# The cabal files admit these versions of the compiler.
ghc_from=9.0
ghc_to=9.12

packages=(
  gcc make libssl-dev libnghttp2-dev zlib1g-dev libbrotli-dev libzstd-dev libcrypt-dev libyaml-dev
  ghc cabal-install
  libghc-network-dev libghc-optparse-applicative-dev libghc-mime-types-dev libghc-primitive-dev
  libghc-hashable-dev libghc-text-short-dev libghc-base64-bytestring-dev
)
libraries_packages=(
  git python3 openssl ca-certificates
  libghc-quickcheck2-dev libghc-tasty-dev libghc-tasty-hunit-dev libghc-tasty-quickcheck-dev
  libghc-inspection-testing-dev libghc-weigh-dev libghc-statistics-dev
  # heddle-aeson, heddle-mpi, and what the tests compare with
  libghc-aeson-dev libghc-cereal-dev libghc-scientific-dev libghc-unordered-containers-dev libghc-random-dev
  # bench/ is a package of the project, so the solver asks for these even where it is not built.
  libghc-http-types-dev libghc-wai-dev libghc-warp-dev
  # heddle-wai and examples/wai-app, and the applications that heddle-wai-apps-test runs
  libghc-case-insensitive-dev libghc-streaming-commons-dev libghc-vault-dev
  libghc-http-client-dev libghc-websockets-dev libghc-wai-websockets-dev
  libghc-fast-logger-dev libghc-scotty-dev libghc-servant-server-dev libghc-wai-app-static-dev libghc-wai-extra-dev
  libghc-yesod-dev libghc-yesod-static-dev libghc-zlib-dev
  libghc-async-dev libghc-parallel-dev
  libghc-conduit-dev libghc-pipes-dev
  # examples/rendezvous
  libghc-juicypixels-dev libghc-vector-dev
  # heddle-websocket: keys, compression, and another implementation to talk to
  libghc-cryptohash-sha1-dev python3-websockets
  # heddle-mpi: it is built against both, and runs under either
  openmpi-bin libopenmpi-dev mpich libmpich-dev
  # another reader of JSON, a client, and system calls counted
  nodejs curl strace
  # clients of HTTP/2: nghttp and h2load, and a library for peers that break the rules
  nghttp2-client python3-h2
  # servers behind the proxy of heddle-gateway
  nginx-light haproxy
  # rotates the access log of heddle serve
  logrotate
  # programs for heddle-gateway to run: PHP both ways, and two that browse repositories
  php-cgi php-fpm cgit gitweb
  # heddle-openflow: a real switch, with its dummy datapath
  openvswitch-switch openvswitch-common
  # rev, a command that the tests of heddle-filter run; no longer part of util-linux
  bsdextrautils
)
everything_packages=(
  # make check, and make docs
  ormolu hlint cmark-gfm
  # make test: real clients, and a proxy
  wget chromium
  # make test: what unpacks compressed files, makes and hashes passwords, and a terminal
  brotli zstd apache2-utils bsdutils procps
)
# What some releases do not have: what compares with it is left out. Of prometheus, promtool checks the metrics of heddle serve; with
# ghc-events the reader of event logs is tested.
optional_packages=(libghc-monad-par-dev libghc-ghc-events-dev h2o prometheus)
bench_packages=(nginx-light lighttpd php-fpm mighttpd2 wrk valgrind fd-find bfs golang-go ripgrep python3-mpi4py
  g++ libsimdjson-dev openvswitch-testcontroller)
conformance_packages=(golang-go python3-venv testssl.sh)
ktls_packages=(user-mode-linux kmod iproute2)

[ "$#" -gt 0 ] || set -- everything
for kind; do
  case $kind in
    command) ;;
    libraries) packages+=("${libraries_packages[@]}") ;;
    everything) packages+=("${libraries_packages[@]}" "${everything_packages[@]}") ;;
    bench) packages+=("${libraries_packages[@]}" "${everything_packages[@]}" "${bench_packages[@]}") ;;
    conformance) packages+=("${libraries_packages[@]}" "${everything_packages[@]}" "${conformance_packages[@]}") ;;
    ktls) packages+=("${libraries_packages[@]}" "${everything_packages[@]}" "${ktls_packages[@]}") ;;
    *)
      echo "setup.sh: '$kind' is none of command, libraries, everything, bench, conformance, ktls" >&2
      exit 2
      ;;
  esac
done
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)

cannot() {
  {
    echo "make setup: $1"
    echo "  $2"
    echo "  With apt, Heddle is built from these packages:"
    printf '%s\n' "${packages[@]}" | fmt -w 88 | sed 's/^/    /'
    echo "  Without: install gcc, make, GHC $ghc_from to $ghc_to and cabal (https://www.haskell.org/ghcup), then type"
    echo "    cabal update && cabal build exe:heddle"
  } >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  cannot "this system has no apt." "Install the equivalents of its packages by hand, or use GHC with libraries from Hackage."
fi

if [ "$(getconf LONG_BIT)" != 64 ]; then
  cannot "this system has $(getconf LONG_BIT) bits, and Heddle needs 64." "Use a 64-bit Debian: x86-64 is tested, arm64 is meant to work."
fi

check_ghc() {
  if ! dpkg --compare-versions "$1" ge "$ghc_from" || ! dpkg --compare-versions "$1" lt "$ghc_to.99"; then
    cannot "this system's GHC is '${1:-missing}', and Heddle needs $ghc_from to $ghc_to." \
      "Use Debian 12 or later, Ubuntu 24.04 or later, or GHC with libraries from Hackage."
  fi
}
installed=$(dpkg-query -W -f '${Version}' ghc 2>/dev/null || true)
if [ -n "$installed" ]; then check_ghc "$installed"; fi

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  cannot "not installed: ${missing[*]}; installing needs root or sudo, and there is neither." \
    "Ask an administrator to run: apt-get install ${missing[*]}"
fi

# Web servers start themselves on port 80 when installed. While our own apt runs, the
# distribution's policy hook says no; a hook that is already there is left in charge.
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
remove_policy() {
  if [ "$policy_is_ours" = yes ]; then "${as_root[@]}" rm -f "$policy"; fi
}
trap remove_policy EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -e "$policy" ]; then
  policy_is_ours=yes
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}
apt_get update
check_ghc "$(apt-cache policy ghc | sed -n 's/^ *Candidate: *//p')"

if [ "$*" != command ]; then
  for package in "${optional_packages[@]}"; do
    if ! is_installed "$package" && apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
  done
fi
absent=()
for package in "${missing[@]}"; do
  apt-cache show "$package" >/dev/null 2>&1 || absent+=("$package")
done
if [ "${#absent[@]}" -gt 0 ]; then
  cannot "this system's archive has no ${absent[*]}." "If apt's list of sources leaves a part of the archive out, such as universe, add it."
fi

echo "make setup: installing ${missing[*]}"
apt_get install -y --no-install-recommends "${missing[@]}"
