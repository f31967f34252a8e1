#!/usr/bin/env bash
# install.sh install|uninstall: puts the program with its manual, completions
# and service below PREFIX (/usr/local), or takes them away. DESTDIR is put in
# front of all paths; those inside the service are without it.
#
# PROGRAM is what to install (bin/vionet). GENERATOR is a vionet that runs on
# this machine, if PROGRAM is for another.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}
program=${PROGRAM:-bin/vionet}
generator=${GENERATOR:-$program}

share=$root$prefix/share
binary=$root$prefix/bin/vionet
unit=$root$prefix/lib/systemd/system/vionet-bind.service
settings=$root/etc/default/vionet-bind
declare -A completions=(
    [bash]=$share/bash-completion/completions/vionet
    [zsh]=$share/zsh/site-functions/_vionet
    [fish]=$share/fish/vendor_completions.d/vionet.fish
)

put() {
    [ -x "$program" ] || { echo "there is no $program: make build first" >&2; exit 1; }
    install -D -m 755 "$program" "$binary"
    manual
    for shell in "${!completions[@]}"; do
        install -d "$(dirname "${completions[$shell]}")"
        "$generator" completion "$shell" >"${completions[$shell]}"
        chmod 644 "${completions[$shell]}"
    done
    install -d "$(dirname "$unit")"
    sed "s|@BINDIR@|$prefix/bin|" packaging/vionet-bind.service.in >"$unit"
    chmod 644 "$unit"
    # What its user wrote there stays.
    [ -e "$settings" ] || install -D -m 644 packaging/vionet-bind.default "$settings"
}

manual() {
    local pages page
    pages=$(mktemp -d)
    "$generator" man --dir "$pages"
    for page in "$pages"/*; do
        install -d "$share/man/man${page##*.}"
        gzip -9n <"$page" >"$share/man/man${page##*.}/$(basename "$page").gz"
    done
    rm -r "$pages"
}

take_away() {
    rm -f "$binary" "$unit" "${completions[@]}" "$share"/man/man[17]/vionet{,-*}.[17].gz
    cmp -s packaging/vionet-bind.default "$settings" && rm "$settings"
    [ ! -e "$settings" ] || echo "left because it was changed: $settings" >&2
}

case ${1:-} in
install) put ;;
uninstall) take_away ;;
*) echo "usage: packaging/install.sh install|uninstall" >&2; exit 2 ;;
esac
