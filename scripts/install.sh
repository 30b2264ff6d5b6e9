#!/usr/bin/env bash
# Installs the built command, its man pages, completions and service, and the starter of MPI jobs, or removes them again.
#
#   scripts/install.sh install HEDDLE [HEDDLE-MPIRUN]    PREFIX, DESTDIR, SYSCONFDIR and ZSHDIR say where
#   scripts/install.sh uninstall
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
destination=${DESTDIR:-}
configuration=${SYSCONFDIR:-/etc}
zsh=${ZSHDIR:-$prefix/share/zsh/site-functions}
pages=(heddle.1 heddle-serve.1 heddle-find.1 heddle-pipe.1 heddle-json.1 heddle-trace.1 heddle-password.1 heddle-controller.1 heddle-ofbench.1
  heddle-serve-config.5 heddle-cookbook.7)

fail() {
  echo "make $action: $1" >&2
  exit 1
}

action=${1:-}
built=${2:-}
# Only who runs MPI jobs has built it: the command does not need its library.
mpirun=${3:-}
case "$action" in
  install) if [ -z "$built" ]; then fail "say which program: scripts/install.sh install bin/heddle"; fi ;;
  uninstall) ;;
  *)
    echo "install.sh: '$action' is neither install nor uninstall" >&2
    exit 2
    ;;
esac
for place in "$prefix" "$configuration" "$zsh"; do
  if [ "${place#/}" = "$place" ]; then fail "'$place' is not an absolute path"; fi
done

nearest=$destination$prefix
while [ ! -e "$nearest" ]; do nearest=$(dirname "$nearest"); done
if [ ! -w "$nearest" ]; then
  fail "$nearest cannot be written by $(id -un); use sudo, or make $action PREFIX=\$HOME/.local SYSCONFDIR=\$HOME/.config"
fi

bash_file=$prefix/share/bash-completion/completions/heddle
fish_file=$prefix/share/fish/vendor_completions.d/heddle.fish
zsh_file=$zsh/_heddle
unit=$prefix/lib/systemd/system/heddle.service
defaults=$configuration/default/heddle

if [ "$action" = uninstall ]; then
  for page in "${pages[@]}"; do rm -f "$destination$prefix/share/man/man${page##*.}/$page"; done
  rm -f "$destination$prefix/bin/heddle" "$destination$prefix/bin/heddle-mpirun" "$destination$bash_file" "$destination$fish_file" "$destination$zsh_file" "$destination$unit"
  if [ -e "$destination$defaults" ]; then
    if cmp -s packaging/heddle.default "$destination$defaults"; then
      rm -f "$destination$defaults"
    else
      echo "make uninstall: kept $destination$defaults, which has been edited"
    fi
  fi
  exit 0
fi

if [ ! -x "$built" ]; then fail "$built has not been built; run: make command"; fi
if [ -n "$mpirun" ] && [ ! -x "$mpirun" ]; then
  echo "make install: without heddle-mpirun, which starts MPI jobs: $mpirun has not been built (make build)"
  mpirun=
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/man_pages.py "$built" "$work"
for shell in bash zsh fish; do "$built" "--$shell-completion-script" heddle >"$work/$shell"; done
sed -e "s|@BINDIR@|$prefix/bin|" -e "s|@SYSCONFDIR@|$configuration|" packaging/heddle.service >"$work/service"

install -D -m 755 -s "$built" "$destination$prefix/bin/heddle"
if [ -n "$mpirun" ]; then install -D -m 755 -s "$mpirun" "$destination$prefix/bin/heddle-mpirun"; fi
for page in "${pages[@]}"; do install -D -m 644 "$work/$page" "$destination$prefix/share/man/man${page##*.}/$page"; done
install -D -m 644 "$work/bash" "$destination$bash_file"
install -D -m 644 "$work/fish" "$destination$fish_file"
install -D -m 644 "$work/zsh" "$destination$zsh_file"
install -D -m 644 "$work/service" "$destination$unit"
# An administrator's options are never overwritten.
if [ ! -e "$destination$defaults" ]; then install -D -m 644 packaging/heddle.default "$destination$defaults"; fi
