package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
	"vionet/port/ringport"
	"vionet/vhost"
)

// devices are the devices that the command line names or that are bound to
// vfio-pci, opened.
type devices struct {
	log    *slog.Logger
	ports  []port.Port
	virtio []*driver.Device // those of ports that are driven by package driver
	loops  []*vhost.Loopback
	fabric ringport.Fabric // of the net_ring ports
	node   mbuf.NodeChoice // of the first PCI function
}

// pciArguments are the device arguments of every virtio device.
const pciArguments = "mrg_rxbuf=, in_order=, packed_vq=, event_idx=, simple_tx_support=, clear_num_buffers=, speed="

// openDevices opens PCI functions first and virtual devices next, as their
// port numbers go. Without any there is the embedded device.
func openDevices(ctx context.Context, eal ealOptions, log *slog.Logger) (*devices, error) {
	d := &devices{log: log}
	functions, err := pciDevices(eal)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if err := d.openPCI(f); err != nil {
			return nil, d.abandon(err)
		}
	}
	for _, v := range eal.Vdevs {
		if err := d.openVdev(ctx, v); err != nil {
			return nil, d.abandon(err)
		}
	}
	if len(d.ports) == 0 {
		if err := d.openEmbedded(); err != nil {
			return nil, d.abandon(err)
		}
	}
	return d, nil
}

// pciDevices lists the functions to open: those that -a names, or all that
// are bound to vfio-pci and not blocked.
func pciDevices(eal ealOptions) ([]device, error) {
	if eal.NoPCI {
		return nil, nil
	}
	if len(eal.Allow) > 0 {
		return eal.Allow, nil
	}
	functions, err := pci.Tree{}.Functions()
	if err != nil {
		return nil, fmt.Errorf("look for PCI functions: %w: give --no-pci to do without", err)
	}
	blocked := map[string]bool{}
	for _, b := range eal.Block {
		bdf, err := pci.ParseBDF(b)
		if err != nil {
			return nil, fmt.Errorf("block %w", err)
		}
		blocked[bdf] = true
	}
	var bound []device
	for _, f := range functions {
		if f.IsVirtioNet() && f.Driver == pci.DriverVFIO && !blocked[f.BDF] {
			bound = append(bound, device{Name: f.BDF})
		}
	}
	return bound, nil
}

// open opens a device by its name: a PCI address or that of a virtual device.
func (d *devices) open(ctx context.Context, dev device) error {
	if _, err := pci.ParseBDF(dev.Name); err == nil {
		return d.openPCI(dev)
	}
	return d.openVdev(ctx, dev)
}

func (d *devices) openPCI(dev device) error {
	opts, args, err := d.driverOptions(dev)
	if err != nil {
		return err
	}
	packed := true
	if err := takeBit(dev, args, "packed_vq", &packed); err != nil {
		return err
	}
	if err := takeBit(dev, args, "in_order", &opts.InOrder); err != nil {
		return err
	}
	opts.NoPacked = !packed
	if err := refuseUnknown(dev, args, pciArguments); err != nil {
		return err
	}
	t, err := pci.Open(pci.Tree{}, dev.Name, pci.Options{Log: d.log})
	if err != nil {
		return err
	}
	if f, err := (pci.Tree{}).Function(dev.Name); err == nil && d.node == (mbuf.NodeChoice{}) {
		d.node = mbuf.OnNode(f.NUMANode)
	}
	return d.drive(t, opts)
}

// openEmbedded starts the device that returns every frame.
func (d *devices) openEmbedded() error {
	d.log.Info("no device was named and none is bound to vfio-pci: using the embedded device, which returns every frame")
	loop, err := vhost.StartLoopback(vhost.LoopbackConfig{Log: d.log})
	if err != nil {
		return err
	}
	d.loops = append(d.loops, loop)
	t, err := loop.Dial(vhost.FrontendConfig{Log: d.log})
	if err != nil {
		return err
	}
	return d.drive(t, driver.Options{ID: len(d.ports), Logger: d.log, Devargs: "embedded"})
}

// drive opens the device behind t as the next port.
func (d *devices) drive(t driver.Transport, opts driver.Options) error {
	dev, err := driver.Open(t, opts)
	if err != nil {
		return err
	}
	d.ports = append(d.ports, dev)
	d.virtio = append(d.virtio, dev)
	return nil
}

// driverOptions reads a device's arguments: the driver's own become options,
// the others are left in args. Those about the kind of ring are left to a
// vhost-user front end, which hides from the driver what they switch off;
// IN_ORDER is taken only where it is asked for by name, since the paths without
// it are no slower.
func (d *devices) driverOptions(dev device) (opts driver.Options, args map[string]string, err error) {
	opts = driver.Options{ID: len(d.ports), Devargs: dev.Args, Logger: d.log}
	if args, err = parseDevargs(dev); err != nil {
		return opts, nil, err
	}
	opts.InOrder = args["in_order"] == "1"
	mergeable, simple, clear := true, true, true
	for key, to := range map[string]*bool{
		"mrg_rxbuf": &mergeable, "simple_tx_support": &simple, "clear_num_buffers": &clear, "event_idx": &opts.EventIdx,
	} {
		if err := takeBit(dev, args, key, to); err != nil {
			return opts, nil, err
		}
	}
	opts.NoMergeable, opts.NoSimpleTx, opts.KeepNumBuffers = !mergeable, !simple, !clear
	if text, ok := args["speed"]; ok {
		speed, err := parseInt(dev.Name+" speed", text, 1, maxSpeed)
		if err != nil {
			return opts, nil, err
		}
		opts.Speed = uint32(speed)
		delete(args, "speed")
	}
	return opts, args, nil
}

// maxSpeed is the fastest link that there is a name for, in Mb/s.
const maxSpeed = 400_000

// takeBit takes an argument that is 0 or 1 out of args, if it is there.
func takeBit(dev device, args map[string]string, key string, to *bool) error {
	text, ok := args[key]
	if !ok {
		return nil
	}
	delete(args, key)
	on, err := parseBit(dev.Name+" "+key, text)
	if err == nil {
		*to = on
	}
	return err
}

// parseDevargs splits "key=value,…".
func parseDevargs(dev device) (map[string]string, error) {
	args := map[string]string{}
	for _, item := range strings.FieldsFunc(dev.Args, func(r rune) bool { return r == ',' }) {
		key, value, ok := strings.Cut(item, "=")
		if _, twice := args[key]; !ok || key == "" || twice {
			return nil, fmt.Errorf("%s %s invalid - arguments are key=value, each once", dev.Name, item)
		}
		args[key] = value
	}
	return args, nil
}

func refuseUnknown(dev device, args map[string]string, known string) error {
	if len(args) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(args))
	return fmt.Errorf("%s %s invalid - arguments are %s", dev.Name, strings.Join(keys, ", "), known)
}

// abandon closes what was opened before err.
func (d *devices) abandon(err error) error {
	d.close()
	return err
}

// close closes the ports and then what is behind them.
func (d *devices) close() {
	for _, p := range d.ports {
		if err := p.Close(); err != nil {
			d.log.Error(err.Error())
		}
	}
	for _, l := range d.loops {
		l.Close()
	}
}
