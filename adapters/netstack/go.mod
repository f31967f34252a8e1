module vionet/adapters/netstack

go 1.26.3

require (
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.23.0
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
	vionet v0.0.0
)

require (
	github.com/google/btree v1.1.2 // indirect
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace vionet => ../..
