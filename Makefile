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

.PHONY: help build run vm vm-httpd test deps lint race full matrix bench bench-txqueue bench-zerocopy fuzz fuzz-short

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the static binary bin/vionet
	go build -trimpath -o bin/vionet ./cmd/vionet

run: build ## open the console on an embedded device; needs nothing, not even root
	bin/vionet testpmd -- -i

vm: ## open the console in a QEMU guest, on two functions bound to vfio-pci
	@go run ./scripts/vm

vm-httpd: ## measure an HTTP server in a guest without a kernel network, and one on its kernel's
	@cd examples/httpd && go run ./vm

test: deps build lint race full matrix fuzz-short ## run everything; as root, install first what it needs

deps: ## install, as root, what the tests need, or say what is missing
	@scripts/deps.sh install

lint: ## check formatting, go vet and staticcheck
	@scripts/lint.sh

race: ## run the tests that need no other program under the race detector
	@command -v gcc >/dev/null || { echo 'the race detector needs a C compiler: install gcc and libc6-dev' >&2; exit 1; }
	CGO_ENABLED=1 $(MODULES) sh -c 'go test -race -short -timeout 10m $(RACE)'

full: ## run all tests but the matrix, skipping none
	VIONET_FULL=1 $(MODULES) go test -p 1 -timeout 15m -skip '$(MATRIX)' ./...

matrix: ## run the console in a guest over every transport and ring, and every client before the back end; a line each
	VIONET_FULL=1 go test -timeout 20m -run '$(MATRIX)' -v ./cmd/vionet

bench: build ## measure against DPDK and print the table of ratios
	go run ./scripts/bench

bench-txqueue: build ## measure forwarding with and without a transmit buffer, rates and latency
	go run ./scripts/bench txqueue

bench-zerocopy: build ## measure sending from the application's own memory, by copying and through the kernel
	go run ./scripts/bench zerocopy

fuzz: ## run every fuzz target for FUZZTIME (1m) each
	@scripts/fuzz.sh $(FUZZTIME)

fuzz-short:
	@scripts/fuzz.sh 10s
