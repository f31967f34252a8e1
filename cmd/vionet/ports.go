package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// session is what a console runs on: devices, their memory and the pool.
type session struct {
	*devices
	mem   *mbuf.Memory
	pool  *mbuf.Pool
	pairs int // queue pairs of each port
}

// openSession opens the devices of the command line and makes the memory and
// the pool for them. The caller closes it; ports may be closed before. On an
// error there is nothing to close.
func openSession(ctx context.Context, eal ealOptions, app appOptions, log *slog.Logger) (*session, error) {
	d, err := openDevices(ctx, eal, log)
	if err != nil {
		return nil, err
	}
	if app.TotalMbufs == 0 {
		app.TotalMbufs = defaultMbufs(len(eal.Cores), len(d.ports))
	}
	s := &session{devices: d, pairs: max(app.RxQueues, app.TxQueues)}
	if s.mem, err = newMemory(eal, app, d); err != nil {
		return nil, d.abandon(err)
	}
	s.pool, err = mbuf.NewPool(s.mem, mbuf.PoolConfig{Count: app.TotalMbufs, BufSize: app.MbufSize})
	if err != nil {
		d.close()
		s.mem.Close()
		return nil, err
	}
	return s, nil
}

// close closes the ports, and the pool and its memory once nobody uses them.
func (s *session) close() {
	s.devices.close()
	if err := s.pool.Close(); err != nil {
		// Somebody still has packets: the memory stays for them.
		s.log.Error(err.Error())
		return
	}
	s.mem.Close()
}

// attach opens one more device, named as -a or --vdev do, and makes room for
// its rings and buffers. The session closes it, unless detach does before.
func (s *session) attach(ident string) (port.Port, error) {
	dev := splitDevices([]string{ident})[0]
	if err := s.open(context.Background(), dev); err != nil {
		return nil, err
	}
	p := s.ports[len(s.ports)-1]
	if err := s.makeRoom(p); err != nil {
		return nil, errors.Join(err, s.detach(p))
	}
	return p, nil
}

// makeRoom adds memory for a port that was not there when the memory was made.
func (s *session) makeRoom(p port.Port) error {
	if err := s.pool.Grow(defaultMbufs(1, 1)); err != nil {
		return err
	}
	dev, ok := p.(*driver.Device)
	if !ok {
		return nil
	}
	if want := dev.Addressing().Mode; want > s.mem.Mode() {
		return fmt.Errorf("%s needs device addresses of mode %v, and the memory has %v: name the device on the command line", dev.Name(), want, s.mem.Mode())
	}
	rings, err := dev.RingMemory(s.pairs)
	if err != nil {
		return err
	}
	_, err = s.mem.Grow(rings)
	return err
}

// detach closes a port and forgets it.
func (s *session) detach(p port.Port) error {
	s.ports = slices.DeleteFunc(s.ports, func(other port.Port) bool { return other == p })
	return p.Close()
}

// newMemory makes memory that every device can reach, large enough for the
// pool and the rings.
func newMemory(eal ealOptions, app appOptions, d *devices) (*mbuf.Memory, error) {
	cfg := mbuf.MemoryConfig{NoHuge: eal.NoHuge, Size: eal.MemoryMB << 20, Node: d.node}
	if err := address(&cfg, eal.IOVAMode, d); err != nil {
		return nil, err
	}
	if cfg.Size == 0 {
		rings, err := ringMemory(d, max(app.RxQueues, app.TxQueues))
		if err != nil {
			return nil, err
		}
		cfg.Size = rings + mbuf.PoolMemory(cfg.IOVA, app.TotalMbufs, app.MbufSize)
	}
	return mbuf.NewMemory(cfg)
}

// address settles the kind of device addresses: physical ones as soon as one
// device wants them, since they serve the others too.
func address(cfg *mbuf.MemoryConfig, iovaMode string, d *devices) error {
	var all port.Addressing
	for _, dev := range d.virtio {
		a := dev.Addressing()
		if a.Mode == mbuf.IOVAPhysical && iovaMode == "va" {
			return fmt.Errorf("iova-mode va invalid - %s goes around the IOMMU and needs physical addresses", dev.Name())
		}
		all = all.Join(a)
	}
	cfg.IOVA, cfg.Ranges = all.Mode, all.Ranges
	if iovaMode == "pa" {
		cfg.IOVA = mbuf.IOVAPhysical
	}
	return nil
}

// ringMemory is the memory for the rings of all ports.
func ringMemory(d *devices, pairs int) (int, error) {
	total := ring.UsedAlign
	for _, dev := range d.virtio {
		n, err := dev.RingMemory(pairs)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// defaultMbufs is the size of a pool that fills the rings of every port and
// the caches of every lcore.
func defaultMbufs(lcores, ports int) int {
	const rxRing, txRing, burst = 2048, 2048, 512
	return (rxRing + txRing + burst + lcores*mbuf.DefaultCacheSize) * max(ports, 1)
}

// parseBit reads an argument that is 0 or 1.
func parseBit(name, value string) (bool, error) {
	n, err := parseInt(name, value, 0, 1)
	return n == 1, err
}
