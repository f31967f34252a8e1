// Package device opens the devices that an example runs on, and makes the memory
// and the buffers for them: what every program needs once, before it begins.
//
// A device is named by the address of a PCI function that is bound to vfio-pci
// (0000:00:04.0), as in a guest, or by the path of a vhost-user socket
// (/run/vhost.sock). Without a name there is an embedded device, which returns
// every frame.
package device

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
	"vionet/ring"
	"vionet/vhost"
)

// names are the values of a flag that may be given several times.
type names []string

func (n *names) String() string { return strings.Join(*n, " ") }

func (n *names) Set(name string) error {
	*n = append(*n, name)
	return nil
}

// Flag defines the flag -a, which names a device each time that it is given. The
// names are there after flag.Parse.
func Flag() *[]string {
	var n names
	flag.Var(&n, "a", "`device`: a PCI function bound to vfio-pci (0000:00:04.0) or the path of a vhost-user socket; may be given several times (default: an embedded device)")
	return (*[]string)(&n)
}

// Config says what to open.
type Config struct {
	Names     []string       // of the devices; none: embedded ones
	Devices   int            // how many the program needs at least; 0: 1
	Queues    int            // queue pairs of each that will be used; 0: 1
	QueueSize int            // descriptors of a queue over vhost-user; 0: 256
	Buffers   int            // of the pool; 0: 4096 for each device
	Options   driver.Options // of each device, but for the ID, which is its place
}

// Set is the devices, and a pool in memory that all of them reach.
type Set struct {
	Ports    []*driver.Device
	Pool     *mbuf.Pool
	Embedded bool // nobody but the program itself sends to these devices

	mem   *mbuf.Memory
	loops []*vhost.Loopback
}

// Open opens the devices. They are not configured yet: Start does that, for all
// of them, or the program itself. The caller closes the Set.
func Open(cfg Config) (*Set, error) {
	cfg.Devices, cfg.Queues = max(cfg.Devices, 1), max(cfg.Queues, 1)
	s := &Set{Embedded: len(cfg.Names) == 0}
	if err := s.open(cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) open(cfg Config) error {
	if s.Embedded {
		cfg.Names = make([]string, cfg.Devices)
	}
	if len(cfg.Names) < cfg.Devices {
		return fmt.Errorf("%d devices are named, %d are needed: give -a as many times", len(cfg.Names), cfg.Devices)
	}
	for _, name := range cfg.Names {
		t, err := s.dial(name, vhost.FrontendConfig{Name: name, Queues: cfg.Queues, QueueSize: cfg.QueueSize})
		if err != nil {
			return err
		}
		cfg.Options.ID = len(s.Ports)
		dev, err := driver.Open(t, cfg.Options)
		if err != nil {
			return err
		}
		s.Ports = append(s.Ports, dev)
	}
	if cfg.Buffers == 0 {
		cfg.Buffers = 4096 * len(s.Ports)
	}
	return s.makePool(cfg)
}

// dial opens the way to a device; the empty name is that of a new embedded one.
func (s *Set) dial(name string, front vhost.FrontendConfig) (driver.Transport, error) {
	if name == "" {
		loop, err := vhost.StartLoopback(vhost.LoopbackConfig{Pairs: front.Queues})
		if err != nil {
			return nil, err
		}
		s.loops = append(s.loops, loop)
		return loop.Dial(front)
	}
	if _, err := pci.ParseBDF(name); err == nil {
		return pci.Open(pci.Tree{}, name, pci.Options{})
	}
	return vhost.Dial(name, front)
}

// makePool makes memory that every device can reach, and the pool in it.
func (s *Set) makePool(cfg Config) (err error) {
	var a port.Addressing
	size := ring.UsedAlign
	for _, dev := range s.Ports {
		rings, err := dev.RingMemory(cfg.Queues)
		if err != nil {
			return err
		}
		size += rings
		a = a.Join(dev.Addressing())
	}
	size += mbuf.PoolMemory(a.Mode, cfg.Buffers, 0)
	if s.mem, err = mbuf.NewMemory(mbuf.MemoryConfig{Size: size, IOVA: a.Mode, Ranges: a.Ranges}); err != nil {
		return err
	}
	s.Pool, err = mbuf.NewPool(s.mem, mbuf.PoolConfig{Count: cfg.Buffers})
	return err
}

// Start configures every device alike, with the Set's pool, and starts it.
func (s *Set) Start(cfg port.Config) error {
	cfg.Pool = s.Pool
	for _, dev := range s.Ports {
		if err := dev.Configure(cfg); err != nil {
			return err
		}
		if err := dev.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the devices, and gives the memory back once no packet is in
// anybody's hands. A second call does nothing.
func (s *Set) Close() (err error) {
	for _, dev := range s.Ports {
		err = errors.Join(err, dev.Close())
	}
	for _, loop := range s.loops {
		err = errors.Join(err, loop.Close())
	}
	if s.Pool != nil {
		if inUse := s.Pool.Close(); inUse != nil {
			return errors.Join(err, inUse) // somebody has packets still: the memory stays for them
		}
	}
	if s.mem != nil {
		err = errors.Join(err, s.mem.Close())
	}
	return err
}
