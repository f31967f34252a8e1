package main

import (
	"context"
	"fmt"
	"strings"

	"vionet/port"
	"vionet/port/pcapport"
	"vionet/port/tapport"
	"vionet/vhost"
)

// vdevKinds are the virtual devices, for errors and help.
const vdevKinds = "net_virtio_user, net_vhost, net_null, net_pcap, net_ring and net_tap"

// openVdev opens a virtual device as the next port. Its name says what it is;
// eth_ is an older word for net_, which scripts still use.
func (d *devices) openVdev(ctx context.Context, dev device) error {
	kind := strings.TrimPrefix(strings.TrimPrefix(dev.Name, "eth_"), "net_")
	if strings.HasPrefix(kind, "virtio_user") {
		return d.openVirtioUser(ctx, dev)
	}
	var open func(device) (port.Port, error)
	switch {
	case kind == dev.Name: // no net_
	case strings.HasPrefix(kind, "vhost"):
		open = d.openVhost
	case strings.HasPrefix(kind, "null"):
		open = openNull
	case strings.HasPrefix(kind, "pcap"):
		open = openPcap
	case strings.HasPrefix(kind, "ring"):
		open = d.openRing
	case strings.HasPrefix(kind, "tap"):
		open = openTap
	}
	if open == nil {
		return fmt.Errorf("vdev %s invalid - there are %s", dev.Name, vdevKinds)
	}
	p, err := open(dev)
	if err != nil {
		return err
	}
	d.ports = append(d.ports, p)
	return nil
}

// openVirtioUser opens a front end:
// net_virtio_user0,path=SOCKET,queues=1,server=0.
func (d *devices) openVirtioUser(ctx context.Context, dev device) error {
	opts, args, err := d.driverOptions(dev)
	if err != nil {
		return err
	}
	path, cfg, err := vhost.ParseDevargs(dev.Name, args)
	if err != nil {
		return err
	}
	if err := refuseUnknown(dev, args, "path=, queues=, queue_size=, mac=, mtu=, cq=, server=, "+pciArguments); err != nil {
		return err
	}
	cfg.Log, opts.MAC = d.log, cfg.MAC
	t, err := vhost.DialContext(ctx, path, cfg)
	if err != nil {
		return err
	}
	return d.drive(t, opts)
}

// openVhost makes a port of a back end: net_vhost0,iface=SOCKET,queues=1,client=0.
func (d *devices) openVhost(dev device) (port.Port, error) {
	args, err := parseDevargs(dev)
	if err != nil {
		return nil, err
	}
	cfg, err := vhost.ParsePortDevargs(dev.Name, args)
	if err != nil {
		return nil, err
	}
	if err := refuseUnknown(dev, args, vhost.PortDevargs); err != nil {
		return nil, err
	}
	cfg.ID, cfg.Devargs, cfg.Log = len(d.ports), dev.Args, d.log
	return vhost.NewPort(cfg)
}

// openNull makes a null port: net_null0,size=64,copy=0,no-rx=0.
func openNull(dev device) (port.Port, error) {
	args, err := parseDevargs(dev)
	if err != nil {
		return nil, err
	}
	cfg := port.NullConfig{Name: dev.Name, Devargs: dev.Args}
	if text, ok := args["size"]; ok {
		delete(args, "size")
		if cfg.Size, err = parseInt(dev.Name+" size", text, 1, maxMbufSize); err != nil {
			return nil, err
		}
	}
	if err := takeBit(dev, args, "copy", &cfg.Copy); err != nil {
		return nil, err
	}
	if err := takeBit(dev, args, "no-rx", &cfg.NoRx); err != nil {
		return nil, err
	}
	if err := refuseUnknown(dev, args, "size=, copy= and no-rx="); err != nil {
		return nil, err
	}
	return port.NewNull(cfg)
}

// openPcap makes a port of capture files: net_pcap0,rx_pcap=IN,tx_pcap=OUT.
// Several files of a kind are several queues.
func openPcap(dev device) (port.Port, error) {
	cfg := pcapport.Config{Name: dev.Name, Devargs: dev.Args}
	for _, item := range strings.FieldsFunc(dev.Args, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "rx_pcap":
			cfg.RxFiles = append(cfg.RxFiles, value)
		case "tx_pcap":
			cfg.TxFiles = append(cfg.TxFiles, value)
		case "infinite_rx":
			on, err := parseBit(dev.Name+" "+key, value)
			if err != nil {
				return nil, err
			}
			cfg.Loop = on
		default:
			return nil, fmt.Errorf("%s %s invalid - arguments are rx_pcap=, tx_pcap= and infinite_rx=", dev.Name, item)
		}
	}
	return pcapport.New(cfg)
}

// openRing makes one end of a cable between two ports: net_ring0,peer=net_ring1
// and net_ring1.
func (d *devices) openRing(dev device) (port.Port, error) {
	args, err := parseDevargs(dev)
	if err != nil {
		return nil, err
	}
	p, err := d.fabric.Open(dev.Name, args)
	if err != nil {
		return nil, err
	}
	if err := refuseUnknown(dev, args, "peer=, size="); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// openTap makes a port of a network interface of the kernel: net_tap0,iface=NAME.
func openTap(dev device) (port.Port, error) {
	args, err := parseDevargs(dev)
	if err != nil {
		return nil, err
	}
	cfg, err := tapport.ParseDevargs(dev.Name, args)
	if err != nil {
		return nil, err
	}
	if err := refuseUnknown(dev, args, "iface=, mac="); err != nil {
		return nil, err
	}
	cfg.Devargs = dev.Args
	return tapport.New(cfg)
}
