package main

import (
	"fmt"
	"log/slog"
	"strings"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// openPorts opens the devices of the command line and makes the memory and
// the pool for them. Cleanup closes all of it; the ports may be closed before.
// On an error there is nothing to clean up.
func openPorts(eal ealOptions, app appOptions, log *slog.Logger) (ports []port.Port, pool *mbuf.Pool, cleanup func(), err error) {
	d, err := openDevices(eal, log)
	if err != nil {
		return nil, nil, nil, err
	}
	if app.TotalMbufs == 0 {
		app.TotalMbufs = defaultMbufs(len(eal.Cores), len(d.ports))
	}
	mem, err := newMemory(eal, app, d)
	if err != nil {
		return nil, nil, nil, d.abandon(err)
	}
	pool, err = mbuf.NewPool(mem, mbuf.PoolConfig{Count: app.TotalMbufs, BufSize: app.MbufSize})
	if err != nil {
		d.close()
		mem.Close()
		return nil, nil, nil, err
	}
	return d.ports, pool, func() {
		d.close()
		if err := pool.Close(); err != nil {
			// Somebody still has packets: the memory stays for them.
			log.Error(err.Error())
			return
		}
		mem.Close()
	}, nil
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
	for _, dev := range d.virtio {
		a := dev.Addressing()
		if a.Mode == mbuf.IOVAPhysical && iovaMode == "va" {
			return fmt.Errorf("iova-mode va invalid - %s goes around the IOMMU and needs physical addresses", dev.Name())
		}
		if a.Mode > cfg.IOVA {
			cfg.IOVA = a.Mode
		}
		if a.Mode == mbuf.IOVARanges {
			cfg.Ranges = a.Ranges
		}
	}
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

// openNull makes a null port: net_null0,size=64,copy=0,no-rx=0.
func openNull(d device) (port.Port, error) {
	cfg := port.NullConfig{Name: d.Name, Devargs: d.Args}
	for _, arg := range strings.FieldsFunc(d.Args, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "size":
			cfg.Size, err = parseInt(d.Name+" size", value, 1, maxMbufSize)
		case "copy":
			cfg.Copy, err = parseBit(d.Name+" copy", value)
		case "no-rx":
			cfg.NoRx, err = parseBit(d.Name+" no-rx", value)
		default:
			err = fmt.Errorf("%s %s invalid - arguments are size=, copy= and no-rx=", d.Name, arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return port.NewNull(cfg)
}

// parseBit reads an argument that is 0 or 1.
func parseBit(name, value string) (bool, error) {
	n, err := parseInt(name, value, 0, 1)
	return n == 1, err
}
