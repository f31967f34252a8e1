#!/usr/bin/env bash
# deb.sh [ARCH]: makes vionet_VERSION_ARCH.deb in OUT (bin), for amd64 or arm64;
# the default is this machine's. VERSION is what go stamped into the build.
set -euo pipefail
cd "$(dirname "$0")/.."

export CGO_ENABLED=0 ARCH=${1:-$(go env GOARCH)} STAGE=bin/deb
out=${OUT:-bin}
rm -rf $STAGE
mkdir -p $STAGE
go build -trimpath -o $STAGE/generator ./cmd/vionet
GOARCH=$ARCH go build -trimpath -ldflags=-s -o $STAGE/vionet ./cmd/vionet

# A build that found no tag or commit has no version.
stamped=$($STAGE/generator version | sed -n 's/^vionet v//p')
export VERSION=${VERSION:-${stamped:-0.0.0-devel}}

PROGRAM=$STAGE/vionet GENERATOR=$STAGE/generator PREFIX=/usr DESTDIR=$STAGE/root packaging/install.sh install
# This is where Debian's zsh looks for what packages bring.
mv $STAGE/root/usr/share/zsh/site-functions $STAGE/root/usr/share/zsh/vendor-completions
gzip -9n <CHANGELOG.md >$STAGE/changelog.gz
chmod -R u=rwX,go=rX $STAGE
go build -C packaging/nfpm -o "$PWD/$STAGE/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
$STAGE/nfpm package -f packaging/nfpm.yaml -p deb -t "$out/"
