#!/usr/bin/env bash
# lint.sh: formatting, vet and staticcheck over the whole repository.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
    printf 'not formatted, run gofmt -w:\n%s\n' "$unformatted" >&2
    exit 1
fi
scripts/modules.sh go vet ./...
scripts/modules.sh "$(go tool -n staticcheck)" ./...
