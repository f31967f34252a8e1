package vhost

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/mbuf"
	"vionet/virtio"
)

// Memory grows under traffic; frames go through the new part at once. The back
// end takes it region by region, or as a whole table again.
func TestMemoryGrowsWhileRunning(t *testing.T) {
	for _, withhold := range []protocolFeatures{0, protocolMemSlots} {
		for _, kind := range []virtio.Features{0, virtio.RingPacked} {
			l := newLoop(t, LoopbackConfig{Packed: true, withhold: withhold})
			f, err := l.Dial(FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, f, 1)
			r.start(plain|kind, 1)
			for round := range 5 {
				if _, err := r.mem.Grow(1 << 20); err != nil {
					t.Fatal(err)
				}
				// The last buffer that there is lies in what was added.
				for {
					z, err := r.mem.Alloc(rigBufSize, 4096)
					if errors.Is(err, mbuf.ErrNoMemory) {
						break
					}
					r.must(err)
					for i := range r.pairs[0].txBufs {
						r.pairs[0].txBufs[i] = z // one frame at a time is under way
					}
				}
				for i := range 2 * rigSize {
					r.send(0, virtio.NetHeader{}, frameOf(i, 100))
					if _, got := r.receive(0); !bytes.Equal(got, frameOf(i, 100)) {
						t.Fatalf("round %d, frame %d: %x", round, i, got)
					}
				}
			}
			if regions := r.mem.Regions(); len(regions) != 6 || countMappings(t) != 12 {
				t.Errorf("%d regions, %d mappings of them, want 6 and 12", len(regions), countMappings(t))
			}
			r.start(plain|kind, 1) // it all stays known
			r.send(0, virtio.NetHeader{}, frameOf(1, 100))
			r.receive(0)
			f.Close()
			l.Close()
			r.mem.Close()
		}
	}
}

// A back end that refuses more memory: the memory does not grow, and the device
// goes on.
func TestMemoryThatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		protocol protocolFeatures
		request  request
		want     []string
	}{
		{protocolMemSlots | protocolReplyAck, addMemReg, []string{"ADD_MEM_REG 1"}},
		{protocolReplyAck, setMemTable, []string{
			"SET_VRING_ENABLE 1 0", "SET_VRING_ENABLE 0 0", "SET_MEM_TABLE 2", "SET_VRING_ENABLE 0 1", "SET_VRING_ENABLE 1 1",
		}},
	} {
		s, sock := newScripted(t, dpdkFeatures, tt.protocol)
		s.answers[getMaxMemSlots] = func(message) message { return message{u64: 509} }
		f := scriptedFrontend(t, s, sock, FrontendConfig{QueueSize: rigSize})
		r := newRig(t, f, 1)
		r.start(plain, 1)
		s.trace()
		refuse := true
		s.mu.Lock()
		s.answers[tt.request] = func(message) message {
			if refuse {
				refuse = false
				return message{u64: 1}
			}
			return message{}
		}
		s.mu.Unlock()
		if _, err := r.mem.Grow(1 << 20); !errors.Is(err, errRefused) {
			t.Errorf("%v refused: %v", tt.request, err)
		}
		if n := len(r.mem.Regions()); n != 1 {
			t.Errorf("%d regions after the refusal, want 1", n)
		}
		if diff := cmp.Diff(tt.want, s.trace()[:len(tt.want)]); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		_, err := r.mem.Grow(1 << 20)
		r.must(err)
		s.trace()
		r.must(f.unmap(r.mem.Regions()[1:]))
		if got := s.trace(); !slices.Contains(got, "REM_MEM_REG 1") && !slices.Contains(got, "SET_MEM_TABLE 1") {
			t.Errorf("memory taken back with %v", got)
		}
	}
}

// Memory that grows while the back end is away is there when it is back.
func TestB29MemoryGrowsWithoutBackEnd(t *testing.T) {
	m, r := newMortal(t, false, LoopbackConfig{})
	r.start(plain, 1)
	m.die(false)
	for r.f.ReadConfig(0, make([]byte, 1)) == nil {
		r.f.mu.Lock()
		gone := r.f.connected() != nil
		r.f.mu.Unlock()
		if gone {
			break
		}
	}
	added, err := r.mem.Grow(1 << 20)
	r.must(err)
	m.live()
	z := r.pairs[0].txBufs[0]
	z.Bytes, z.IOVA = added[0].Bytes[:rigBufSize], added[0].IOVA
	for i := range rigSize {
		r.pairs[0].txBufs[i] = z
	}
	r.send(0, virtio.NetHeader{}, frameOf(7, 90))
	if _, got := r.receive(0); !bytes.Equal(got, frameOf(7, 90)) {
		t.Errorf("got %x", got)
	}
}

// Regions that a front end adds and removes one by one.
func TestB28MemoryRegions(t *testing.T) {
	b := newTestBackend(t, BackendConfig{})
	s := newSession(b, nil)
	defer s.end()
	fd := memfd(t, 1<<20)
	region := func(i uint64) memRegion {
		return memRegion{guest: i << 20, user: i << 24, size: 1 << 12, offset: i << 12}
	}
	do := func(r request, m memRegion) error {
		fds := []int{fd}
		if r == remMemReg {
			fds = nil
		}
		_, err := s.handle(message{request: r, table: []memRegion{m}}, fds)
		return err
	}
	if err := do(remMemReg, region(0)); err == nil {
		t.Error("a region that there never was is gone")
	}
	for i := range uint64(maxMemSlots) {
		if err := do(addMemReg, region(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := do(addMemReg, region(maxMemSlots)); err == nil {
		t.Error("a region more than there can be")
	}
	if err := do(remMemReg, region(5)); err != nil {
		t.Error(err)
	}
	if _, ok := s.mem.slice(5<<20, 1); ok {
		t.Error("a region is there after it was removed")
	}
	if _, ok := s.mem.slice(6<<20, 1<<12); !ok {
		t.Error("removing a region took another")
	}
	if err := do(addMemReg, region(6)); err != nil || len(s.mem.regions) != maxMemSlots-1 {
		t.Errorf("a region that is added twice: %d regions, %v", len(s.mem.regions), err)
	}
	for name, bad := range map[string]memRegion{
		"elsewhere": {guest: 6 << 20, user: 7 << 24, size: 1 << 12, offset: 6 << 12},
		"too long":  {guest: 5 << 20, size: 2 << 20},
		"it wraps":  {guest: 5 << 20, size: 1 << 12, offset: 1<<64 - 1<<11},
		"no length": {guest: 5 << 20},
	} {
		if err := do(addMemReg, bad); err == nil {
			t.Errorf("%s: it was added", name)
		}
	}
	if err := do(remMemReg, memRegion{guest: 6 << 20, user: 6 << 24, size: 1 << 11}); err == nil {
		t.Error("half a region was removed")
	}
}
