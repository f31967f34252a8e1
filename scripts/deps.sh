#!/usr/bin/env bash
# deps.sh check|install: what the tests need besides Go, from Debian's packages.
#   check    says what is missing, and fails if anything is
#   install  as root installs it; as another user does as check does
set -euo pipefail

# program:package, one for each package that has to be named; the rest comes
# along as their dependencies.
needs=(
    qemu-system-x86_64:qemu-system-x86
    dpdk-testpmd:dpdk-dev
    /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk:openvswitch-switch-dpdk
    ip:iproute2
    ethtool:ethtool
    nsenter:util-linux
    dpkg-deb:dpkg
    gcc:gcc
    /usr/include/stdlib.h:libc6-dev
    tshark:tshark
    make:make
    xz:xz-utils
    qemu-aarch64-static:qemu-user-static
    groff:groff-base
    systemd-analyze:systemd
    bash:bash
    curl:curl
)

missing() {
    local need
    for need in "${needs[@]}"; do
        command -v "${need%:*}" >/dev/null || [ -e "${need%:*}" ] || echo "${need#*:}"
    done
}

usage() {
    echo "usage: scripts/deps.sh check|install" >&2
    exit 2
}

[ $# -eq 1 ] || usage
case $1 in check | install) ;; *) usage ;; esac

# Debian keeps ip and ethtool where a user's PATH need not lead.
PATH=$PATH:/usr/sbin:/sbin
mapfile -t packages < <(missing)
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$1" = install ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${packages[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends "${packages[@]}" </dev/null >/dev/null
    mapfile -t packages < <(missing)
    [ ${#packages[@]} -gt 0 ] || exit 0
    echo "still missing after the installation: ${packages[*]}" >&2
    exit 1
fi

echo "missing: ${packages[*]}" >&2
echo "as root: apt-get update && apt-get install --no-install-recommends ${packages[*]}" >&2
exit 1
