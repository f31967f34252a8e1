package netstack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
	"vionet/vhost"
	"vionet/virtio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// eventually waits until ok is true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			tb.Fatalf("waited in vain: %s", what)
		}
	}
}

// newPool makes a pool, which has to be whole at the end of the test.
func newPool(tb testing.TB, count int) *mbuf.Pool {
	tb.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: mbuf.PoolMemory(mbuf.IOVAVirtual, count, 0) + 4<<20, NoHuge: true})
	must(tb, err)
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	must(tb, err)
	tb.Cleanup(func() {
		if err := pool.Close(); err != nil {
			tb.Error(err)
		}
		if err := mem.Close(); err != nil {
			tb.Error(err)
		}
	})
	return pool
}

// ends makes two ports that are tied to each other.
type ends func(tb testing.TB) (near, far port.Port)

// cable ties two ports without offloads.
func cable(tb testing.TB) (near, far port.Port) {
	tb.Helper()
	near, far, err := ringport.NewPair("near", "far", 256)
	must(tb, err)
	return near, far
}

// socketPath is a path as short as the name of a socket must be.
func socketPath(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "netstack-")
	must(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// virtual ties the back end, which is near, and the driver.
func virtual(cfg vhost.PortConfig, opts driver.Options) ends {
	return func(tb testing.TB) (near, far port.Port) {
		tb.Helper()
		cfg.Path, cfg.Queues = socketPath(tb), max(cfg.Queues, 1)
		near, err := vhost.NewPort(cfg)
		must(tb, err)
		f, err := vhost.Dial(cfg.Path, vhost.FrontendConfig{Queues: cfg.Queues})
		must(tb, err)
		opts.EventIdx = true
		dev, err := driver.Open(f, opts)
		must(tb, err)
		return near, dev
	}
}

// host is a stack behind an endpoint.
type host struct {
	tb    testing.TB
	stack *stack.Stack
	link  *Endpoint
	ip    [2]tcpip.Address // IPv4 and IPv6
}

const nic = tcpip.NICID(1)

// newHost makes a stack on p with the last bytes of its addresses given. The
// stack ends with the test.
func newHost(tb testing.TB, p port.Port, number byte, cfg Config) *host {
	tb.Helper()
	if cfg.Pool == nil {
		cfg.Pool = newPool(tb, 4096)
	}
	link, err := New(p, cfg)
	must(tb, err)
	h := &host{tb: tb, link: link, stack: newStack()}
	tb.Cleanup(h.destroy)
	must(tb, link.AddTo(h.stack, nic, stack.NICOptions{}))
	h.ip[0] = tcpip.AddrFrom4([4]byte{192, 0, 2, number})
	h.ip[1] = tcpip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: number})
	for i, proto := range []tcpip.NetworkProtocolNumber{header.IPv4ProtocolNumber, header.IPv6ProtocolNumber} {
		prefix := tcpip.AddressWithPrefix{Address: h.ip[i], PrefixLen: []int{24, 64}[i]}
		if err := h.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: proto, AddressWithPrefix: prefix}, stack.AddressProperties{}); err != nil {
			tb.Fatal(err)
		}
		h.stack.AddRoute(tcpip.Route{Destination: prefix.Subnet(), NIC: nic})
	}
	return h
}

func (h *host) destroy() {
	h.stack.Destroy()
	h.link.Close()
	if err := h.link.Err(); err != nil {
		h.tb.Error(err)
	}
}

// serve serves HTTP on port 80: GET /N gives N bytes of content, and POST /N
// takes them and says whether they were.
func (h *host) serve() {
	h.tb.Helper()
	for i, proto := range []tcpip.NetworkProtocolNumber{header.IPv4ProtocolNumber, header.IPv6ProtocolNumber} {
		l, err := gonet.ListenTCP(h.stack, tcpip.FullAddress{NIC: nic, Addr: h.ip[i], Port: 80}, proto)
		must(h.tb, err)
		server := &http.Server{Handler: http.HandlerFunc(handle)}
		done := make(chan struct{})
		go func() { defer close(done); server.Serve(l) }()
		h.tb.Cleanup(func() { server.Close(); <-done })
	}
}

func handle(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.URL.Path[1:], 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost {
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err != nil || [32]byte(sum.Sum(nil)) != sumOf(size) {
			http.Error(w, "damaged", http.StatusBadRequest)
		}
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(size))
	io.Copy(w, content(size))
}

// amount is the number of bytes of a transfer: less under -short, where the race
// detector looks on.
func amount(size int64) int64 {
	if testing.Short() {
		size /= 16
	}
	return size
}

// content is size bytes that are always the same.
func content(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(size)}), size)
}

func sumOf(size int64) [32]byte {
	sum := sha256.New()
	io.Copy(sum, content(size))
	return [32]byte(sum.Sum(nil))
}

// client gives an HTTP client that connects from h to port 80 of to.
func (h *host) client(to *host, ipv int) *http.Client {
	proto := []tcpip.NetworkProtocolNumber{header.IPv4ProtocolNumber, header.IPv6ProtocolNumber}[ipv]
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return gonet.DialContextTCP(ctx, h.stack, tcpip.FullAddress{NIC: nic, Addr: to.ip[ipv], Port: 80}, proto)
	}}
	h.tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get fetches size bytes and compares them.
func get(c *http.Client, size int64) error {
	answer, err := c.Get(fmt.Sprintf("http://server/%d", size))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, answer.Body); err != nil || n != size {
		return fmt.Errorf("%d bytes of %d: %w", n, size, err)
	}
	if [32]byte(sum.Sum(nil)) != sumOf(size) {
		return fmt.Errorf("%d bytes arrived damaged", size)
	}
	return nil
}

// post sends size bytes, which the server compares.
func post(c *http.Client, size int64) error {
	answer, err := c.Post(fmt.Sprintf("http://server/%d", size), "", content(size))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server says %s", answer.Status)
	}
	return nil
}

// largeRx is what virtio devices need for large received packets.
const largeRx = virtio.NetGuestTSO4 | virtio.NetGuestTSO6
