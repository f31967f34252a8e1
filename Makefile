# make help lists the targets.

export CGO_ENABLED = 0
# Debian keeps ip and ethtool where a user's PATH need not lead.
export PATH := $(PATH):/usr/sbin:/sbin

# What runs under the race detector: everything but the lab and its programs.
RACE = $$(go list ./... | grep -v /scripts/)

# Runs a command in the module of the root, and in those inside.
MODULES = scripts/modules.sh

# The matrices of devices and of clients print a line for each of their cells.
MATRIX = ^(TestGuestMatrix|TestVhostUserInTheGuest|TestDPDKFrontEnds|TestLinuxGuest.*|TestGuestOnBackEnd|TestOpenVSwitch)$$

# The packages whose tests run on an emulated arm64 as well, and the tests that
# stay out: those of the order in which memory is written, of which an emulator
# says nothing, and those that start a program of this machine's own.
EMULATED = ./doctor ./driver/... ./mbuf ./offload ./pci/... ./port ./port/pcapport ./port/ringport ./ring ./testpmd/... ./virtio
NATIVE = B19|OnATerminal

.PHONY: help build install uninstall deb run vm vm-httpd test deps lint cross race full benchmarks matrix bench bench-guest bench-txqueue bench-zerocopy fuzz fuzz-short

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the static binary bin/vionet
	go build -trimpath -o bin/vionet ./cmd/vionet

install: ## put bin/vionet with manual, completions and service below PREFIX (/usr/local), in DESTDIR
	@packaging/install.sh install

uninstall: ## take them away again
	@packaging/install.sh uninstall

deb: ## pack a Debian package into bin/, for ARCH (amd64 or arm64) if that is not this machine's
	@packaging/deb.sh $(ARCH)

run: build ## open the console on an embedded device; needs nothing, not even root
	bin/vionet testpmd -- -i

vm: ## open the console in a QEMU guest, on two functions bound to vfio-pci
	@go run ./scripts/vm

vm-httpd: ## measure an HTTP server in a guest without a kernel network, and one on its kernel's
	@cd examples/httpd && go run ./vm

test: deps build lint cross race full benchmarks matrix fuzz-short ## run everything; as root, install first what it needs

deps: ## install, as root, what the tests need, or say what is missing
	@scripts/deps.sh install

lint: ## check formatting, go vet and staticcheck
	@scripts/lint.sh

cross: ## vet and build for arm64, and run there, in an emulator, the tests that can
	GOARCH=arm64 $(MODULES) go vet ./...
	GOARCH=arm64 go build -o /dev/null ./cmd/vionet
	GOARCH=arm64 go test -short -timeout 5m -skip '$(NATIVE)' -exec qemu-aarch64-static $(EMULATED)

race: ## run the tests that need no other program under the race detector
	@command -v gcc >/dev/null || { echo 'the race detector needs a C compiler: install gcc and libc6-dev' >&2; exit 1; }
	CGO_ENABLED=1 $(MODULES) sh -c 'go test -race -short -timeout 10m $(RACE)'

full: ## run all tests but the matrix, skipping none
	VIONET_FULL=1 $(MODULES) go test -p 1 -timeout 15m -skip '$(MATRIX)' ./...

benchmarks: ## run each Go benchmark once: the burst paths of the driver fail it if they allocate
	go test -run '^$$' -bench . -benchtime 1x ./ring ./mbuf ./driver ./vhost

matrix: ## run the console in a guest over every transport and ring, and every client before the back end; a line each
	VIONET_FULL=1 go test -timeout 20m -run '$(MATRIX)' -v ./cmd/vionet

bench: build ## measure against DPDK, in at most 20 minutes, and write the figures into docs/BENCHMARKS.md
	bin/vionet bench all --docs docs --json docs/bench/results.json

bench-guest: build ## measure both drivers in one virtual machine
	bin/vionet bench guest

bench-txqueue: build ## measure forwarding with and without a transmit buffer, rates and latency
	bin/vionet bench txqueue

bench-zerocopy: build ## measure sending from the application's own memory, by copying and through the kernel
	bin/vionet bench zerocopy

fuzz: ## run every fuzz target for FUZZTIME (1m) each
	@scripts/fuzz.sh $(FUZZTIME)

fuzz-short:
	@scripts/fuzz.sh 10s
