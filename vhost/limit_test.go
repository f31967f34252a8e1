package vhost

import (
	"testing"

	"golang.org/x/sys/unix"
)

// limitFDs leaves the process room for spare more descriptors, until the
// function it returns is called.
func limitFDs(t *testing.T, spare int) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// The limit is on the number of a descriptor; the lowest free ones are
	// handed out.
	var limit, free int
	for ; free < spare; limit++ {
		if _, err := unix.FcntlInt(uintptr(limit), unix.F_GETFD, 0); err != nil {
			free++
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(limit), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}
}
