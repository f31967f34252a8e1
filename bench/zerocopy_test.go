package bench

import (
	"os"
	"testing"
)

func TestSentPackets(t *testing.T) {
	// The loopback interface is there in every network namespace.
	if _, err := sentPackets(os.Getpid(), "lo"); err != nil {
		t.Error(err)
	}
	if _, err := sentPackets(os.Getpid(), "none0"); err == nil {
		t.Error("an interface that is not there has a counter")
	}
}
