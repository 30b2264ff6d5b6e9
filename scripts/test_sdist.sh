#!/usr/bin/env bash
# Builds a program from the source packages alone, outside the checkout and without the network, and runs it.
# Where root may mount, the checkout is hidden from that build; anywhere else the plan must not mention it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)
outside=$(mktemp -d /tmp/heddle-sdist-XXXXXX)
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$outside"
}
trap finish EXIT
fail() {
  echo "test-sdist: $1" >&2
  exit 1
}

"$root/scripts/sdist.sh" "$outside/sdist"
export CABAL_DIR=$outside/cabal CABAL_CONFIG=$outside/cabal/config LC_ALL=C.UTF-8
mkdir -p "$CABAL_DIR" "$outside/program"
: >"$CABAL_CONFIG"
for archive in "$outside"/sdist/*.tar.gz; do tar -xzf "$archive" -C "$outside"; done
links=$(find "$outside" -type l)
if [ -n "$links" ]; then fail "symbolic links in source packages: $links"; fi
for folder in "$outside"/heddle*; do
  for file in LICENSE CHANGELOG README.md; do
    if [ ! -s "$folder/$file" ]; then fail "$(basename "$folder") has no $file"; fi
  done
done

cat >"$outside/cabal.project" <<'PROJECT'
packages: heddle*/*.cabal program/*.cabal
active-repositories: :none
optimization: False
shared: False
executable-dynamic: False
PROJECT
cat >"$outside/program/outside.cabal" <<'CABAL'
cabal-version: 3.0
name:          outside
version:       0
build-type:    Simple

executable outside
  main-is:          Outside.hs
  default-language: Haskell2010
  ghc-options:      -threaded
  build-depends:    base, heddle-bytes, heddle-http, heddle-io, heddle-json, heddle-par, network
CABAL
cat >"$outside/program/Outside.hs" <<'HASKELL'
{-# LANGUAGE OverloadedStrings #-}

module Main (main) where

import Heddle.Http
import Heddle.Bytes.Put (toByteString)
import Heddle.IO (defaultConfig, withRuntime)
import Heddle.Json (encodeJson)
import Heddle.Par
import Network.Socket (SockAddr (SockAddrUnix))
import System.Environment (getArgs)

fib :: Int -> Par s Int
fib n
  | n < 2 = pure n
  | otherwise = do
    a <- spawn (fib (n - 1))
    b <- fib (n - 2)
    (+ b) <$> get a

main :: IO ()
main = do
  arguments <- getArgs
  withRuntime defaultConfig (const (pure ()))
  case arguments of
    [path] -> runServer defaultSettings [SockAddrUnix path] (const (pure answer))
    _ -> print (runPar (fib 20), toByteString (encodeJson [1 :: Int, 2, 3]))
  where
    answer = Whole status200 [Header "Content-Type" "text/plain"] "from the source packages\n"
HASKELL

# The shell that runs it expands it.
# shellcheck disable=SC2016
build='cd "$1" && cabal build -j1 -v1 exe:outside && cabal list-bin -v0 exe:outside >"$1/path"'
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
  unshare -m --propagation private bash -euc "mount -t tmpfs none \"\$2\"; $build" build "$outside" "$root"
  how="with the checkout hidden"
else
  bash -euc "$build" build "$outside"
  how="the checkout was readable"
fi
if grep -qF "$root/" "$outside/dist-newstyle/cache/plan.json"; then fail "the plan mentions $root"; fi

program=$(cat "$outside/path")
printed=$("$program")
if [ "$printed" != '(6765,"[1,2,3]")' ]; then fail "the parallel program printed: $printed"; fi

"$program" "$outside/socket" &
server=$!
page=
for _ in {1..100}; do
  if page=$(curl -fsS --unix-socket "$outside/socket" http://localhost/ 2>"$outside/curl"); then break; fi
  kill -0 "$server" 2>/dev/null || fail "the server ended"
  sleep 0.1
done
if [ "$page" != "from the source packages" ]; then fail "the server answered: $page $(cat "$outside/curl")"; fi
echo "test-sdist: ok, $how"
