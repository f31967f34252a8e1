#!/usr/bin/env bash
# fuzz.sh [TIME]: runs every fuzz target of the repository for TIME (1m) each.
set -euo pipefail
cd "$(dirname "$0")/.."

for package in $(go list ./...); do
    for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
        echo "$package $target"
        go test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 100x -fuzztime "${1:-1m}" "$package"
    done
done
