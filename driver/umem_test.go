package driver_test

import (
	"errors"
	"strings"
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

func TestUMEMIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{})
	area := anonymous(t, 16*4096)
	tests := []struct {
		name string
		cfg  driver.UMEMConfig
		says string
	}{
		{"nothing", driver.UMEMConfig{}, "no area"},
		{"not aligned", driver.UMEMConfig{Area: mbuf.Area{Bytes: area[2048 : 4*4096+2048]}}, "multiples of the page"},
		{"frame too small", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FrameSize: 128}, "256 to 32768"},
		{"frame no power of two", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FrameSize: 3000}, "power of two"},
		{"frame does not divide", driver.UMEMConfig{Area: mbuf.Area{Bytes: area[:3*4096]}, FrameSize: 8192}, "4096 bytes over"},
		{"another number of frames", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, Frames: 31}, "leave the number out"},
		{"ring no power of two", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FillSize: 100}, "fill ring of 100"},
		{"heap", driver.UMEMConfig{Area: mbuf.Area{Bytes: pageOfHeap()}}, "Go heap"},
	}
	for _, tt := range tests {
		_, err := driver.NewUMEM(r.mem, tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	u, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Area: mbuf.Area{Bytes: area}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Area: mbuf.Area{Bytes: area[8*4096:]}}); err == nil || !strings.Contains(err.Error(), "overlaps") {
		t.Errorf("the same memory twice: %v", err)
	}
	for _, at := range []struct {
		addr uint64
		n    int
	}{{0, 2049}, {100, -1}, {2047, 2}, {16 * 4096, 0}, {1 << 63, 60}} {
		if b := u.Data(at.addr, at.n); b != nil {
			t.Errorf("%d bytes at %#x of frames of 2048: got %d", at.n, at.addr, len(b))
		}
	}
	for _, cfg := range []driver.XSKConfig{{}, {Queue: 1, TxSize: 64}, {Queue: -1, TxSize: 64}, {TxSize: 63}, {RxSize: -1}} {
		if _, err := r.port.NewXSK(u, cfg); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", cfg, err)
		}
	}
	if err := u.Close(done()); err != nil {
		t.Error(err)
	}
}

// pageOfHeap gives a page of the Go heap.
func pageOfHeap() []byte {
	b := make([]byte, 8192)
	at := 0
	for ; mbuf.Region.Addr(mbuf.Region{Bytes: b[at:]})%4096 != 0; at++ {
	}
	return b[at : at+4096]
}
