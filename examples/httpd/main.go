// Command httpd serves HTTP over a virtio device, from a TCP/IP stack of its own:
// net/http on top, gVisor's stack in the middle, vionet below, and no kernel.
//
//	httpd -a 0000:00:04.0 -ip 192.0.2.2/24
//	httpd -a /run/vhost.sock -ip 192.0.2.2/24 -gateway 192.0.2.1
//
// / is a greeting, and /bytes/N are N bytes that are always the same. Without a
// device there is a cable with a client at its other end, which fetches -demo
// bytes and says how long it took.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"vionet/adapters/netstack"
	"vionet/driver"
	"vionet/examples/httpd/pages"
	"vionet/examples/internal/device"
	"vionet/mbuf"
	"vionet/port"
)

// options are the flags.
type options struct {
	devices     *[]string
	ip, gateway string
	port        int
	queues      int
	spin        time.Duration
	demo        int64
}

func main() {
	o := options{devices: device.Flag()}
	flag.StringVar(&o.ip, "ip", "192.0.2.2/24", "`address` and length of the network's prefix")
	flag.StringVar(&o.gateway, "gateway", "", "`address` of the way to other networks")
	flag.IntVar(&o.port, "port", 80, "TCP port to listen on")
	flag.IntVar(&o.queues, "queues", 1, "queue pairs of the device to use")
	flag.DurationVar(&o.spin, "spin", 0, "how long to poll for packets before a sleep")
	flag.Int64Var(&o.demo, "demo", 100_000_000, "bytes to fetch when there is no device")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves on the device, or shows it without one, until ctx is done.
func run(ctx context.Context, o options, out io.Writer) error {
	if len(*o.devices) == 0 {
		return demonstrate(ctx, o, out)
	}
	set, err := device.Open(device.Config{Names: *o.devices, Queues: o.queues, Buffers: 8192, Options: driver.Options{EventIdx: true}})
	if err != nil {
		return err
	}
	h, l, err := listen(set.Ports[0], set.Pool, o)
	if err == nil {
		fmt.Fprintf(out, "serving http://%s on %s\n", o.ip, set.Ports[0].Name())
		err = errors.Join(serve(ctx, l), h.Close())
	}
	return errors.Join(err, set.Close())
}

// listen makes a host of a port, and listens.
func listen(p port.Port, pool *mbuf.Pool, o options) (*netstack.Host, net.Listener, error) {
	h, err := newHost(p, pool, o.ip, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := h.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(o.port)))
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return h, l, nil
}

// serve serves until ctx is done.
func serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: pages.Handler()}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newHost makes a host of a port.
func newHost(p port.Port, pool *mbuf.Pool, ip string, o options) (*netstack.Host, error) {
	prefix, err := netip.ParsePrefix(ip)
	if err != nil {
		return nil, err
	}
	cfg := netstack.HostConfig{
		Link:      netstack.Config{Pool: pool, Queues: o.queues, Spin: o.spin},
		Addresses: []netip.Prefix{prefix},
	}
	if o.gateway != "" {
		gateway, err := netip.ParseAddr(o.gateway)
		if err != nil {
			return nil, err
		}
		cfg.Gateways = append(cfg.Gateways, gateway)
	}
	return netstack.NewHost(p, cfg)
}
