package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
)

// The frames of a UMEM that a function sends: from several areas, one after the
// other.
const (
	umemAreas  = 3
	umemFrames = 200 // from each
)

func umemFrame(area, number int) []byte {
	return named(everyone, nil, fmt.Sprintf("umem %d %d", area, number))
}

// TestGuestUMEM sends frames from anonymous memory that is registered while the
// port runs, through an IOMMU, and takes it back. The host looks at what arrived.
func TestGuestUMEM(t *testing.T) {
	guestPorts(t, func(t *testing.T, function int, p *guestPort) {
		p.restart(port.Config{})
		for area := range umemAreas {
			if !p.sendUMEM(area) {
				p.cell("anonymous memory is refused, for physical addresses")
				return
			}
		}
		fmt.Printf("%sumem %d\n", wish, function)
		p.cell("frames of a UMEM")
	})
}

// sendUMEM registers an area, sends from it until all is complete, and takes it
// back. It reports whether the device takes such memory.
func (p *guestPort) sendUMEM(area int) bool {
	const frames = 64
	memory, err := unix.Mmap(-1, 0, frames*2048, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	p.must(err)
	defer unix.Munmap(memory)
	umem, err := driver.NewUMEM(p.pool.Memory(), driver.UMEMConfig{Area: mbuf.Area{Bytes: memory}})
	if p.Addressing().Mode == mbuf.IOVAPhysical {
		if err == nil || !strings.Contains(err.Error(), "hugepages") {
			p.t.Errorf("memory in plain pages: %v", err)
		}
		return false
	}
	p.must(err)
	xsk, err := p.NewXSK(umem, driver.XSKConfig{TxSize: frames})
	p.must(err)
	free, away := make([]uint64, frames), map[uint64]bool{}
	for i := range free {
		free[i] = uint64(i*2048 + i%3*100) // the header has room, or has not
	}
	sent, completed := 0, 0
	for end := time.Now().Add(20 * time.Second); completed < umemFrames && time.Now().Before(end); xsk.Poll() {
		for ; len(free) > 0 && sent < umemFrames && xsk.Tx.Reserve(1) == 1; sent++ {
			addr, f := free[0], umemFrame(area, sent)
			copy(memory[addr:], f)
			*xsk.Tx.Slot(0) = driver.XSKDesc{Addr: addr, Len: uint32(len(f))}
			p.must(xsk.Tx.Submit(1))
			free, away[addr] = free[1:], true
		}
		n := umem.Completion.Peek(frames)
		for i := range n {
			addr := *umem.Completion.At(i)
			if !away[addr] {
				p.t.Errorf("%#x came back, and was not away", addr)
			}
			delete(away, addr)
			clear(memory[addr : addr+64])
			free = append(free, addr)
		}
		p.must(umem.Completion.Release(n))
		completed += n
	}
	if completed != umemFrames || len(away) != 0 || xsk.Stats() != (driver.XSKStats{}) {
		p.t.Errorf("area %d: %d of %d frames completed, %d are away; %+v, %v", area, completed, sent, len(away), xsk.Stats(), xsk.Err())
	}
	p.must(errors.Join(xsk.Close(done()), umem.Close(done())))
	if err := p.TxQueue(0).Err(); err != nil {
		p.t.Error(err)
	}
	return true
}

// seeUMEM waits for what TestGuestUMEM sent: each frame once, and whole.
func seeUMEM(c *lab.Cable) error {
	missing := umemAreas * umemFrames
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		seen := map[string]int{}
		for _, f := range c.Frames() {
			seen[string(f)]++
		}
		missing = 0
		for area := range umemAreas {
			for number := range umemFrames {
				switch n := seen[string(umemFrame(area, number))]; {
				case n == 0:
					missing++
				case n > 1:
					return fmt.Errorf("frame %d of area %d arrived %d times", number, area, n)
				}
			}
		}
		if missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d frames did not arrive whole", missing, umemAreas*umemFrames)
}
