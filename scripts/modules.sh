#!/usr/bin/env bash
# modules.sh COMMAND...: run a command in each module of the repository, the root
# first: those inside hold what needs large libraries. One that only names tools
# has no packages, and is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

find . -name '.?*' -prune -o -name go.mod -printf '%h\n' | sort | while read -r module; do
    packages=$(cd "$module" && go list ./... 2>/dev/null)
    [ -z "$packages" ] || (cd "$module" && "$@" </dev/null)
done
