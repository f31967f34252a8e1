#!/usr/bin/env bash
# modules.sh COMMAND...: run a command in each module of the repository, the root
# first: those inside hold what needs large libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

find . -name '.?*' -prune -o -name go.mod -printf '%h\n' | sort | while read -r module; do
    (cd "$module" && "$@" </dev/null)
done
