package packet_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vionet/driver/fakedev"
	"vionet/packet"
	"vionet/port"
	"vionet/virtio"
)

// program assembles instructions.
func program(t *testing.T, instructions ...bpf.Instruction) []bpf.RawInstruction {
	t.Helper()
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// arpOnly lets the first keep bytes of ARP frames pass, and nothing else.
func arpOnly(t *testing.T, keep uint32) []bpf.RawInstruction {
	return program(t,
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x0806, SkipFalse: 1},
		bpf.RetConstant{Val: keep},
		bpf.RetConstant{Val: 0},
	)
}

func TestFilter(t *testing.T) {
	near, far := pair(t)
	arp := frame(60, "who has")
	copy(arp[12:], "\x08\x06")
	send := func() {
		write(t, near, frame(60, "no ARP"))
		write(t, near, arp)
	}
	send()
	if err := far.SetBPF(arpOnly(t, 1<<16)); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(t, far); got != string(arp) { // what waits already is filtered as well
		t.Errorf("%q passed", got)
	}
	if err := far.SetBPF(arpOnly(t, 20)); err != nil {
		t.Fatal(err)
	}
	send()
	if got, _ := read(t, far); got != string(arp[:20]) {
		t.Errorf("%q passed, want 20 bytes of it", got)
	}
	if err := far.SetBPF(nil); err != nil {
		t.Fatal(err)
	}
	send()
	if got, _ := read(t, far); got != string(frame(60, "no ARP")) {
		t.Errorf("without a filter %q was read", got)
	}
	read(t, far)
}

// A filter sees a frame of several buffers as one.
func TestFilterLooksBehindTheFirstBuffer(t *testing.T) {
	dev, c := fake(t, fakedev.Config{}, packet.Config{})
	const place = 4000 // a buffer holds 2048 bytes
	err := c.SetBPF(program(t,
		bpf.LoadAbsolute{Off: place, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 'y', SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []byte{'n', 'y'} {
		f := frame(5000, "")
		f[place], f[20] = mark, mark
		if err := dev.Deliver(0, virtio.NetHeader{}, f); err != nil {
			t.Fatal(err)
		}
	}
	ms := []packet.Message{{Buffers: [][]byte{make([]byte, 100)}}, {Buffers: [][]byte{make([]byte, 100)}}}
	if n, err := c.ReadBatch(ms, 0); n != 1 || err != nil || ms[0].Buffers[0][20] != 'y' || ms[0].Flags != unix.MSG_TRUNC {
		t.Errorf("%d frames, %v: %+v", n, err, ms[0])
	}
}

// A flood of frames that the filter drops holds up neither a deadline nor Close.
func TestFilterUnderAFlood(t *testing.T) {
	p, err := port.NewNull(port.NullConfig{}) // which always has frames
	if err != nil {
		t.Fatal(err)
	}
	c := listen(t, p, packet.Config{})
	if err := c.SetBPF(program(t, bpf.RetConstant{Val: 0})); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	begin := func() {
		go func() {
			_, _, err := c.ReadFrom(nil)
			read <- err
		}()
	}
	end := func(want error) {
		t.Helper()
		select {
		case err := <-read:
			if !errors.Is(err, want) {
				t.Errorf("the read ended with %v, want %v", err, want)
			}
		case <-time.After(20 * time.Second):
			c.SetBPF(nil) // or Close would not end either
			t.Fatal("the read does not end")
		}
	}
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	begin()
	end(os.ErrDeadlineExceeded)
	c.SetReadDeadline(time.Time{})
	begin()
	go c.Close()
	end(net.ErrClosed)
}

func TestRefusedFilters(t *testing.T) {
	c := silent(t, packet.Config{})
	for name, p := range map[string][]bpf.RawInstruction{
		"unknown instruction": {{Op: 0xffff}},
		"no return":           program(t, bpf.LoadAbsolute{Off: 0, Size: 1}),
		"a jump too far":      program(t, bpf.Jump{Skip: 9}, bpf.RetConstant{}),
	} {
		if err := c.SetBPF(p); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
