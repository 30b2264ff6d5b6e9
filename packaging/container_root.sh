#!/bin/sh
# Gathers what heddle needs in a container without a distribution: the program, the libraries that it loads, and the
# certificates of authorities, for --proxy /=https://...
#
# usage: container_root.sh HEDDLE FOLDER
set -eu
[ $# -eq 2 ] || { echo "usage: container_root.sh HEDDLE FOLDER" >&2; exit 2; }
heddle=$(command -v "$1") || { echo "container_root.sh: there is no program $1; give its path" >&2; exit 1; }
root=$2

put() {
  mkdir -p "$root$(dirname "$2")"
  cp -L "$1" "$root$2"
}

put "$heddle" /usr/bin/heddle
# Lines are "NAME => PATH (ADDRESS)", and "PATH (ADDRESS)" for the loader. libssl is no part of the program, which loads it when there
# is something to encrypt.
LD_PRELOAD=libssl.so.3 ldd "$heddle" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
  put "$library" "$library"
done
authorities=/etc/ssl/certs/ca-certificates.crt
if [ -e "$authorities" ]; then put "$authorities" "$authorities"; fi
mkdir -p "$root/srv" "$root/tmp"
