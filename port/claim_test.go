package port

import (
	"errors"
	"strings"
	"testing"
)

func TestClaim(t *testing.T) {
	var ports [2]Port
	for i := range ports {
		var err error
		if ports[i], err = NewNull(NullConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	release, err := Claim(ports[0], "the first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Claim(ports[0], "the second"); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "the first has its queues") {
		t.Errorf("a second claim: %v", err)
	}
	other, err := Claim(ports[1], "the second")
	if err != nil {
		t.Errorf("another port: %v", err)
	}
	defer other()
	release()
	again, err := Claim(ports[0], "the second")
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	defer again()
	release() // is not that of the second
	if _, err := Claim(ports[0], "the third"); err == nil {
		t.Error("the second claim was released by the first one's")
	}
}
