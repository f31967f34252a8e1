package driver

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"vionet/port"
	"vionet/virtio"
)

// control is what a Device knows of the control queue and of the settings that
// go through it.
type control struct {
	// change is held by whoever changes the settings, while the command for it
	// waits for its answer. It is taken before Device.mu, which is not held then,
	// so that the port can be stopped and looked at.
	change sync.Mutex

	queue atomic.Pointer[controlQueue] // of a started port that has one

	// What the device said when it was opened.
	maxVirtqueuePairs int
	limits            port.RSSLimits

	// settings are written under both change and Device.mu.
	settings settings

	announcing sync.Mutex
	background background
}

// settings are what a device forgets with a reset and every Start gives it
// again.
type settings struct {
	promiscuous  bool
	allMulticast bool
	modes        [port.RxNoBroadcast + 1]bool
	macs         []net.HardwareAddr // beside the primary one
	multicast    []net.HardwareAddr
	vlans        map[uint16]bool // those that are let in
	rss          port.RSS        // without a key until it was configured
	coalesce     map[virtio.ControlCommand]port.Coalescing
}

// interrupt ends the command that waits for its answer, if there is one.
func (c *control) interrupt() {
	if queue := c.queue.Load(); queue != nil {
		queue.end()
	}
}

// slotSize is the memory in bytes that the largest command takes.
func (c *control) slotSize() int {
	tables := 2*4 + 6*(maxMACs+maxMulticast)
	rss := 4 + 3*2 + 2*c.limits.MaxTable + 1 + c.limits.MaxKey
	return (slotData + max(tables, rss) + 63) &^ 63
}

// adjust changes a setting: it gives the command to the device of a started
// port, and keeps the setting with remember. The caller holds change.
func (d *Device) adjust(what string, need virtio.Features, cmd command, remember func(*settings)) error {
	d.mu.Lock()
	err := d.mayAdjust(what, need)
	queue := d.control.queue.Load()
	d.mu.Unlock()
	if err == nil && queue != nil {
		err = queue.do(cmd)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.Name(), what, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	remember(&d.control.settings)
	return nil
}

// mayAdjust reports an error when the device, or what Start negotiated with it,
// lacks one of the features.
func (d *Device) mayAdjust(what string, need virtio.Features) error {
	need |= virtio.NetCtrlVQ
	switch {
	case d.state == closed:
		return port.ErrClosed
	case need&^d.offered != 0:
		return &FeatureError{Asked: what, Missing: need &^ d.offered}
	case d.state == started && need&^d.accepted != 0:
		return fmt.Errorf("%w: %v was not negotiated: stop the port, configure it and start it", port.ErrState, need&^d.accepted)
	}
	return nil
}

// flag is the data of a command that switches something.
func flag(on bool) []byte {
	if on {
		return []byte{1}
	}
	return []byte{0}
}

// background runs functions on goroutines of their own, until end.
type background struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

func (b *background) run(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.group.Go(f)
	}
}

// end waits for the functions that run, and keeps others from starting.
func (b *background) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.group.Wait()
}
