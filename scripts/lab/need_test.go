package lab

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// verdict is a test that remembers how Need ended it.
type verdict struct {
	testing.TB
	said string
}

func (v *verdict) Helper() {}

func (v *verdict) Skipf(format string, args ...any) {
	v.said = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.said = "fail: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		name, full, part, want string
		tools                  map[string]string
	}{
		{"there", "1", "dpdk", "", map[string]string{"dpdk-testpmd": ""}},
		{"missing in a full run", "1", "dpdk", "fail: missing: dpdk-testpmd", nil},
		{"missing otherwise", "", "dpdk", "skip: missing: dpdk-testpmd", nil},
		{"unknown part", "1", "warp", "fail: lab.Need knows no part", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.full == "" {
				t.Skip("-short skips whatever is missing")
			}
			fakeTools(t, c.tools)
			t.Setenv("VIONET_FULL", c.full)
			fakes, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			t.Setenv("PATH", fakes) // and nothing of this machine
			v := &verdict{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Need(v, c.part)
			}()
			<-done
			if !strings.HasPrefix(v.said, c.want) || (c.want == "") != (v.said == "") {
				t.Errorf("%q, want %q", v.said, c.want)
			}
		})
	}
}
