package fakedev

import (
	"encoding/binary"
	"slices"
	"time"

	"vionet/ring"
	"vionet/virtio"
)

// Command is a command that the driver gave on the control queue.
type Command struct {
	Code virtio.ControlCommand
	Data []byte

	queue *Queue
	chain Chain
}

// Answer is what the device does with a command. The zero value answers OK at
// once.
type Answer struct {
	Status    uint8         // virtio.CtrlOK, or another number
	Untouched bool          // give the command back without a status
	After     time.Duration // answer only then
	Never     bool          // leave it to Device.Answer
}

// control is the device's side of the control queue.
type control struct {
	script   func(Command) Answer
	commands []Command
}

// setControlDefaults fills in the limits of the control queue.
func (c *Config) setControlDefaults() {
	if c.ControlSize == 0 {
		c.ControlSize = 64
	}
	if c.RSSKeyMax == 0 {
		c.RSSKeyMax = 40
	}
	if c.RSSTableMax == 0 {
		c.RSSTableMax = 128
	}
	if c.HashTypes == 0 {
		c.HashTypes = virtio.HashTypesAll
	}
}

// controlled reports whether the device has a control queue, which then is the
// way to enable queue pairs.
func (c *Config) controlled() bool { return c.Offered.Has(virtio.NetCtrlVQ) }

// controlIndex is the number of the control queue, or -1 without one.
func (d *Device) controlIndex() int {
	if !d.accepted.Has(virtio.NetCtrlVQ) {
		return -1
	}
	return virtio.ControlQueue(d.accepted, d.cfg.Pairs)
}

// ControlQueue is the control queue, or nil when the driver has not set it up.
func (d *Device) ControlQueue() *Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues[d.controlIndex()]
}

// OnControl sets the function that says how to answer commands; nil answers OK
// to all. It runs on the goroutine that gives the command.
func (d *Device) OnControl(script func(Command) Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.control.script = script
}

// Commands takes the commands that were given since the last call.
func (d *Device) Commands() []Command {
	d.mu.Lock()
	defer d.mu.Unlock()
	commands := d.control.commands
	d.control.commands = nil
	return commands
}

// Answer answers a command that was left to it.
func (d *Device) Answer(c Command, status uint8) {
	d.answer(c, Answer{Status: status})
}

// Announce asks the driver to announce the port to the network, until it
// acknowledges.
func (d *Device) Announce() { d.setStatusBit(virtio.NetStatusAnnounce, true) }

// AnnounceWanted reports whether the device still waits for the answer to
// Announce.
func (d *Device) AnnounceWanted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return binary.LittleEndian.Uint16(d.config[virtio.ConfigStatus:])&virtio.NetStatusAnnounce != 0
}

// StillReads is what the device reads now where a command that it has not
// answered stood: class, number and data.
func (d *Device) StillReads(c Command) []byte { return c.chain.Readable() }

// WriteConfig changes the configuration space without telling the driver.
func (d *Device) WriteConfig(offset int, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.config[offset:], b)
}

// setStatusBit changes the status in the configuration space and tells the
// driver.
func (d *Device) setStatusBit(bit uint16, on bool) {
	d.mu.Lock()
	d.changeStatus(bit, on)
	changed := d.changed
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (d *Device) changeStatus(bit uint16, on bool) {
	field := d.config[virtio.ConfigStatus:]
	status := binary.LittleEndian.Uint16(field) &^ bit
	if on {
		status |= bit
	}
	binary.LittleEndian.PutUint16(field, status)
}

// controlKicker serves the control queue when the driver kicks it.
type controlKicker struct {
	queue *Queue
}

func (k controlKicker) Kick(position uint16) {
	k.queue.Kick(position)
	for k.queue.dev.serveControl(k.queue) {
	}
}

// serveControl takes a command and answers it as the script says. It reports
// whether there was one.
func (d *Device) serveControl(q *Queue) bool {
	d.mu.Lock()
	if q.Available() == 0 {
		d.mu.Unlock()
		return false
	}
	chain, err := q.Take()
	c := Command{queue: q, chain: chain}
	request := chain.Readable()
	if err != nil || len(request) < 2 {
		d.mu.Unlock()
		return err == nil
	}
	c.Code = virtio.ControlCommand(request[0])<<8 | virtio.ControlCommand(request[1])
	c.Data = slices.Clone(request[2:])
	d.control.commands = append(d.control.commands, c)
	script := d.control.script
	d.mu.Unlock()

	var a Answer
	if script != nil {
		a = script(c)
	}
	switch {
	case a.Never:
	case a.After > 0:
		time.AfterFunc(a.After, func() { d.answer(c, a) })
	default:
		d.answer(c, a)
	}
	return true
}

// answer carries a command out and gives it back, unless the device was reset
// since.
func (d *Device) answer(c Command, a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queues[c.queue.setup.Index] != c.queue {
		return
	}
	if a.Status == virtio.CtrlOK && !a.Untouched {
		d.carryOut(c)
	}
	ack := c.chain.Buffers[len(c.chain.Buffers)-1]
	if !a.Untouched && ack.Flags&ring.DescWrite != 0 && len(ack.Bytes) == 1 {
		ack.Bytes[0] = a.Status
	}
	c.queue.Use(uint32(c.chain.Head), 1)
}

// carryOut does what a command says, as far as it shows.
func (d *Device) carryOut(c Command) {
	le := binary.LittleEndian
	switch c.Code {
	case virtio.CtrlMACAddrSet:
		copy(d.config[virtio.ConfigMAC:virtio.ConfigMAC+6], c.Data)
	case virtio.CtrlAnnounceAck:
		d.changeStatus(virtio.NetStatusAnnounce, false)
	case virtio.CtrlMQPairsSet:
		d.enabled = int(le.Uint16(c.Data))
	case virtio.CtrlMQRSSConfig:
		entries := int(le.Uint16(c.Data[4:])) + 1
		d.enabled = int(le.Uint16(c.Data[8+2*entries:]))
	}
}
