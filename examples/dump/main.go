// Command dump writes what a device receives into a pcapng file, for Wireshark.
//
//	dump -a 0000:00:04.0 -o received.pcapng -c 1000 udp and port 53
//
// The words behind the flags say which frames are wanted; without any all are.
// Without a device there is an embedded one, which returns the few frames that are
// sent for a start. Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"vionet/adapters/packetsource"
	"vionet/capture"
	"vionet/examples/internal/device"
	"vionet/port"
	"vionet/testpmd/engine"
)

// options are the flags.
type options struct {
	devices []string
	out     string
	count   uint64
	snaplen int
	queues  int
	filter  []string
}

func main() {
	devices := device.Flag()
	var o options
	flag.StringVar(&o.out, "o", "dump.pcapng", "`file` to write")
	flag.Uint64Var(&o.count, "c", 0, "end after so many frames (default: no limit)")
	flag.IntVar(&o.snaplen, "s", capture.MaxSnapLen, "`bytes` of a frame that are kept")
	flag.IntVar(&o.queues, "queues", 1, "queue pairs of the device")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: dump [flags] [filter]\n\nThe filter is %s.\n\n", engine.FilterSyntax)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.devices, o.filter = *devices, flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	seen, written, err := dump(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d frames received, %d written to %s\n", seen, written, o.out)
}

// dump writes frames until ctx is done or there are enough.
func dump(ctx context.Context, o options) (seen, written uint64, err error) {
	filter, err := engine.ParseFilter(o.filter)
	if err != nil {
		return 0, 0, err
	}
	devices, err := device.Open(device.Config{Names: o.devices, Queues: o.queues})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	if err := devices.Start(port.Config{RxQueues: o.queues, TxQueues: o.queues, RxInterrupts: true}); err != nil {
		return 0, 0, err
	}
	dev := devices.Ports[0]
	if err := dev.SetPromiscuous(true); err != nil && !errors.Is(err, port.ErrNotSupported) {
		return 0, 0, err
	}
	h, err := packetsource.New(dev, packetsource.Config{Pool: devices.Pool})
	if err != nil {
		return 0, 0, err
	}
	defer h.Close()
	defer context.AfterFunc(ctx, func() { h.Close() })() // ends the read that waits

	file, err := os.Create(o.out)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	w, err := capture.NewWriter(file, capture.WriterConfig{
		Application: "vionet dump", Comment: "received by " + dev.Name(),
		Filter: strings.Join(o.filter, " "), SnapLen: o.snaplen,
	}, sources(o.queues)...)
	if err != nil {
		return 0, 0, err
	}
	if devices.Embedded {
		if err := greet(h, dev.Info().MAC); err != nil {
			return 0, 0, err
		}
	}
	for o.count == 0 || written < o.count {
		frame, info, err := h.ReadPacketData() // a copy: Ctrl-C may come while it is written
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return seen, written, err
		}
		seen++
		if !filter.Match(frame, len(frame)) {
			continue
		}
		if err := w.Write(capture.Source{Queue: info.InterfaceIndex}, info.Timestamp, frame, info.Length); err != nil {
			return seen, written, err
		}
		written++
	}
	return seen, written, errors.Join(w.Close(), file.Close())
}

// sources are the receive queues.
func sources(queues int) (list []capture.Source) {
	for q := range queues {
		list = append(list, capture.Source{Queue: q})
	}
	return list
}

// greet sends a few frames with an EtherType for experiments to all stations.
func greet(h *packetsource.Handle, from []byte) error {
	for n := range 8 {
		frame := append([]byte("\xff\xff\xff\xff\xff\xff"), from...)
		frame = fmt.Appendf(frame, "\x88\xb5good morning, number %-40d", n)
		if err := h.WritePacketData(frame); err != nil {
			return err
		}
	}
	return nil
}
