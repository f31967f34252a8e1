package driver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// Errors of commands on the control queue.
var (
	// ErrCommandRefused: the device answered that it does not do that.
	ErrCommandRefused = errors.New("the device refused the command")
	// ErrCommandTimeout: the device did not answer in time. It matches
	// os.ErrDeadlineExceeded.
	ErrCommandTimeout = fmt.Errorf("the device did not answer: %w", os.ErrDeadlineExceeded)
	// errStopped ends the commands that wait while the port stops.
	errStopped = fmt.Errorf("%w: the port was stopped meanwhile", port.ErrState)
)

const (
	defaultControlTimeout = time.Second
	// controlSlots is the number of commands whose memory there is: one that is
	// under way, and some that the device keeps to itself.
	controlSlots = 4
	// A command takes a descriptor for its class and number, one for its data
	// and one for the answer.
	controlPieces = 3
)

// Where things stand in the memory of a command, in bytes.
const (
	slotHeader = 0 // class and number
	slotAck    = 2 // the answer
	slotData   = 8
)

// unanswered is what the answer is before the device writes it: no status of
// the specification.
const unanswered uint8 = 0xff

// controlQueue is the control virtqueue (virtio 1.2, section 5.1.6.5). Its
// methods may be called from any goroutine; commands run one after the other.
//
// A command that was not answered in time stays with the device, which may
// still read its data and write its answer: its memory is used again only when
// the answer has come, which belongs to that command and to no later one.
type controlQueue struct {
	virtqueue
	timeout  time.Duration
	memory   mbuf.Zone
	slotSize int

	ended   chan struct{} // closed when the port stops
	endOnce sync.Once

	mu     sync.Mutex // held for the length of a command
	spare  []int      // slots that nobody uses
	slotOf []int      // by the head of the chain that is in it
}

// setupControlQueue makes the control queue when it was negotiated.
func (d *Device) setupControlQueue() error {
	if !d.accepted.Has(virtio.NetCtrlVQ) {
		return nil
	}
	c := &controlQueue{
		timeout:  d.opts.ControlTimeout,
		slotSize: d.control.slotSize(),
		ended:    make(chan struct{}),
	}
	err := d.setupVirtqueue(&c.virtqueue, queueWish{
		index:    virtio.ControlQueue(d.accepted, d.control.maxVirtqueuePairs),
		onBroken: d.onBroken("control", 0),
	})
	if err == nil && c.limit < controlPieces {
		err = fmt.Errorf("it has %d descriptors, and a command takes %d", c.limit, controlPieces)
	}
	if err == nil {
		c.memory, err = c.alloc(controlSlots*c.slotSize, ring.DescSize)
	}
	if err != nil {
		c.free()
		return fmt.Errorf("control queue: %w", err)
	}
	c.slotOf = make([]int, c.size)
	for i := range controlSlots {
		c.spare = append(c.spare, i)
	}
	d.control.queue.Store(c)
	return nil
}

// settle implements retired: commands have no buffers.
func (c *controlQueue) settle() int { return 0 }

// release frees the control queue. The device was reset before.
func (c *controlQueue) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free()
}

// end makes a command that waits, and every later one, return at once.
func (c *controlQueue) end() { c.endOnce.Do(func() { close(c.ended) }) }

// do gives the device a command and waits for its answer, the time-out at most.
func (c *controlQueue) do(cmd command) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.timeout)
	if err := c.await(deadline, c.hasRoom); err != nil {
		return fmt.Errorf("%v: wait for room in the control queue: %w", cmd.code, err)
	}
	head, slot := c.post(cmd)
	if err := c.await(deadline, func() bool { return c.harvest(head) }); err != nil {
		return fmt.Errorf("%v: %w", cmd.code, err)
	}
	switch ack := slot.Bytes[slotAck]; ack {
	case virtio.CtrlOK:
		return nil
	case virtio.CtrlErr:
		return fmt.Errorf("%v: %w", cmd.code, ErrCommandRefused)
	case unanswered:
		return fmt.Errorf("%v: %w: it gave the command back without a status", cmd.code, ErrCommandRefused)
	default:
		return fmt.Errorf("%v: %w: its status is %d", cmd.code, ErrCommandRefused, ack)
	}
}

// hasRoom reports whether one more command fits, after a look at those that the
// device has answered late.
func (c *controlQueue) hasRoom() bool {
	const none = -1
	c.harvest(none)
	return c.ring.Err() == nil && len(c.spare) > 0 && c.ring.Free() >= controlPieces
}

// post shows the device a command; there is room.
func (c *controlQueue) post(cmd command) (head int, slot mbuf.Zone) {
	i := c.spare[len(c.spare)-1]
	c.spare = c.spare[:len(c.spare)-1]
	slot = c.memory.Slice(i*c.slotSize, c.slotSize)
	slot.Bytes[slotHeader], slot.Bytes[slotHeader+1] = cmd.code.Class(), cmd.code.Number()
	slot.Bytes[slotAck] = unanswered
	pieces := []ring.Segment{{Addr: slot.IOVA + slotHeader, Len: 2}}
	if n := copy(slot.Bytes[slotData:], cmd.data); n > 0 {
		pieces = append(pieces, ring.Segment{Addr: slot.IOVA + slotData, Len: uint32(n)})
	}
	pieces = append(pieces, ring.Segment{Addr: slot.IOVA + slotAck, Len: 1})
	h := c.ring.AddRequest(pieces)
	c.slotOf[h] = i
	c.show()
	return int(h), slot
}

// harvest takes the commands that the device is done with and reports whether
// the one with that head is among them.
func (c *controlQueue) harvest(head int) (found bool) {
	var done [controlSlots]ring.Completion
	for _, completion := range done[:c.ring.Harvest(done[:])] {
		h := int(completion.Head)
		c.spare = append(c.spare, c.slotOf[h])
		found = found || h == head
	}
	c.noteBroken()
	return found
}

// await looks until ready says so: often at first, for a device that answers at
// once, and then every millisecond.
func (c *controlQueue) await(deadline time.Time, ready func() bool) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := 10 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		select {
		case <-c.ended:
			return errStopped
		case <-timer.C:
		}
		switch late := !time.Now().Before(deadline); {
		case ready():
			return nil
		case c.Err() != nil:
			return c.Err()
		case late:
			return fmt.Errorf("%w within %v: stop and start the port", ErrCommandTimeout, c.timeout)
		}
		timer.Reset(pause)
	}
}

// command is a command with its data.
type command struct {
	code virtio.ControlCommand
	data []byte
}
