#!/usr/bin/env bash
# Lists the project's Haskell files: those that git tracks, and new ones that it does not ignore. Without
# a git checkout (a release archive), all that are there.
set -euo pipefail
git ls-files --cached --others --exclude-standard '*.hs' 2>/dev/null \
  | while read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done \
  | sort -u | grep . \
  || find . -name '*.hs' -not -path './dist-newstyle*' | sed 's|^\./||' | sort
