package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"vionet/mbuf"
	"vionet/scripts/lab"
)

// frontEnd is a combination of what DPDK's net_virtio_user asks for.
type frontEnd struct {
	packed, inOrder, mergeable bool
	pairs                      int
}

// frontEnds are all combinations.
func frontEnds() (all []frontEnd) {
	for i := range 16 {
		all = append(all, frontEnd{packed: i&8 != 0, inOrder: i&4 != 0, mergeable: i&2 != 0, pairs: 1 + i&1})
	}
	return all
}

func (c frontEnd) String() string {
	ring := map[bool]string{false: "split", true: "packed"}[c.packed]
	order := map[bool]string{false: "any order", true: "in order"}[c.inOrder]
	buffers := map[bool]string{false: "one buffer", true: "mergeable"}[c.mergeable]
	queues := map[int]string{1: "1 queue pair", 2: "2 queue pairs"}[c.pairs]
	return strings.Join([]string{"net_virtio_user", ring, order, buffers, queues}, ", ")
}

// start starts DPDK's front end on the socket, and forwarding in mode io.
func (c frontEnd) start(t *testing.T, socket string) *lab.Process {
	t.Helper()
	bit := map[bool]int{false: 0, true: 1}
	queues := []string{fmt.Sprintf("--rxq=%d", c.pairs), fmt.Sprintf("--txq=%d", c.pairs)}
	if c.mergeable { // else DPDK takes no frame larger than a buffer
		queues = append(queues, "--enable-scatter", "--max-pkt-len=9018")
	}
	p := lab.Testpmd(t, lab.DPDK{
		Vdevs: []string{fmt.Sprintf("net_virtio_user0,path=%s,mac=52:54:00:58:d7:01,queues=%d,packed_vq=%d,in_order=%d,mrg_rxbuf=%d",
			socket, c.pairs, bit[c.packed], bit[c.inOrder], bit[c.mergeable])},
		Arguments: append(queues, "--forward-mode=io"),
		Memory:    128,
		CPU:       1,
	})
	lab.Command(t, p.Console, "start")
	return p
}

// largest is the largest frame that the front end receives, in bytes.
func (c frontEnd) largest() int {
	if c.mergeable {
		return 9014
	}
	return 1514
}

// TestDPDKFrontEnds has DPDK's net_virtio_user in front of our back end in
// every combination: all that it gets it returns, in order and byte by byte,
// first with no offloads, then as TCP and UDP whose checksums and segmentation
// are left to us.
func TestDPDKFrontEnds(t *testing.T) {
	lab.Need(t, "dpdk")
	for _, c := range frontEnds() {
		t.Run(c.String(), func(t *testing.T) {
			host := newBackEnd(t, c.pairs)
			client := c.start(t, host.socket)
			eventually(t, "the link", func() bool { return host.port.Link().Up })
			echoed := host.checkEcho(c.pairs, c.largest())
			checkClientCounts(t, client, echoed)
			printCell(c.String(), "%d there and back", echoed)

			requestOffloads(t, client)
			eventually(t, "the link", func() bool { return host.port.Link().Up })
			offloaded := checkRequests(t, host, c)
			checkClientCounts(t, client, offloaded)
			printCell(c.String()+", csum, TSO", "%d there and back", offloaded)
			if s := host.port.Stats(); s.RxErrors+s.TxErrors+s.RxNoBuf != 0 {
				t.Errorf("errors at the back end: %+v", s)
			}
			quit(t, client)
		})
	}
}

// requestedSegment is the TCP payload in bytes of a segment that DPDK asks for.
const requestedSegment = 500

// requestOffloads makes the front end leave checksums and segmentation to the
// device, and starts it again.
func requestOffloads(t *testing.T, client *lab.Process) {
	t.Helper()
	for _, line := range []string{
		"stop", "port stop 0", "csum set tcp hw 0", "csum set udp hw 0",
		fmt.Sprintf("tso set %d 0", requestedSegment), "set fwd csum", "port start 0", "clear port stats 0",
	} {
		lab.Command(t, client.Console, line)
	}
	if answer := lab.Command(t, client.Console, "show port 0 tx_offload configuration"); !strings.Contains(answer, "UDP_CKSUM TCP_CKSUM TCP_TSO") {
		t.Errorf("the front end asks for other offloads:\n%s", answer)
	}
	lab.Command(t, client.Console, "start")
}

// checkRequests sends TCP and UDP with wrong checksums through the front end's
// csum mode. What it leaves to the device, the back end has to do: to fill in
// the checksum; or to hand on the packet that is to be cut, with the sum of its
// pseudo-header in place.
func checkRequests(t *testing.T, host *backEnd, c frontEnd) (total int) {
	t.Helper()
	for range rounds {
		for queue := range c.pairs {
			var sent, want [][]byte
			for i := range roundOfOne {
				f := tcpSegment(1 + (37*i+total)%requestedSegment)
				switch i % 4 {
				case 1:
					f = tcpSegment(requestedSegment + 1 + (31*i+total)%900)
				case 3:
					f = udpDatagram(1 + (41*i+total)%1400)
				}
				sent = append(sent, f)
				want = append(want, settled(f))
			}
			host.send(queue, sent)
			host.receive(queue, len(sent), func(i int, b *mbuf.Buf, frame []byte) {
				if !bytes.Equal(frame, want[i]) {
					t.Fatalf("queue %d, frame %d came back as\n% x\nwant\n% x", queue, i, frame[:54], want[i][:54])
				}
				if !isLarge(want[i]) && b.Flags != 0 || isLarge(want[i]) && (b.Flags != mbuf.RxLRO|mbuf.RxL4None || b.SegSize != requestedSegment) {
					t.Fatalf("queue %d, frame %d of %d bytes has flags %#x and a segment size of %d", queue, i, len(frame), b.Flags, b.SegSize)
				}
			})
			total += len(sent)
		}
	}
	return total
}

// isLarge reports whether a frame of tcpSegment or udpDatagram has to be cut.
func isLarge(f []byte) bool { return f[23] == 6 && len(f) > 54+requestedSegment }

// settled is a frame of tcpSegment or udpDatagram as mode csum sends it on and
// the back end completes it.
func settled(f []byte) []byte {
	f = bytes.Clone(f)
	copy(f, []byte{2, 0, 0, 0, 0, 0})
	copy(f[6:], guestMAC)
	switch {
	case f[23] == 17:
		binary.BigEndian.PutUint16(f[40:], udpChecksum(f))
	case isLarge(f):
		binary.BigEndian.PutUint16(f[50:], ^rfc1071(pseudoHeader(f)))
	default:
		binary.BigEndian.PutUint16(f[50:], tcpChecksum(f))
	}
	return f
}

// udpDatagram makes a UDP datagram to the guest with n bytes of payload and the
// wrong checksum 0xdead.
func udpDatagram(n int) []byte {
	f := tcpSegment(0)[:34]
	binary.BigEndian.PutUint16(f[16:], uint16(28+n))
	f[23], f[24], f[25] = 17, 0, 0
	binary.BigEndian.PutUint16(f[24:], rfc1071(f[14:34]))
	f = append(f, 0x1f, 0x90, 0xc0, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(8+n))
	f = append(f, 0xde, 0xad)
	for i := range n {
		f = append(f, byte(3*i))
	}
	return f
}

// udpChecksum is the right UDP checksum of a frame of udpDatagram.
func udpChecksum(f []byte) uint16 {
	datagram := bytes.Clone(f[34:])
	datagram[6], datagram[7] = 0, 0
	if sum := rfc1071(append(pseudoHeader(f), datagram...)); sum != 0 {
		return sum
	}
	return 0xffff
}

// pseudoHeader is what the checksum of an IPv4 frame without options covers
// beside its own layer.
func pseudoHeader(f []byte) []byte {
	pseudo := append(bytes.Clone(f[26:34]), 0, f[23])
	return binary.BigEndian.AppendUint16(pseudo, uint16(len(f)-34))
}

var clientCounts = regexp.MustCompile(`RX-packets: (\d+) .*\n.*\n.*\n *TX-packets: (\d+) `)

// checkClientCounts wants the front end to have received and sent n packets.
func checkClientCounts(t *testing.T, client *lab.Process, n int) {
	t.Helper()
	answer := lab.Command(t, client.Console, "show port stats 0")
	m := clientCounts.FindStringSubmatch(answer)
	if want := fmt.Sprint(n); m == nil || m[1] != want || m[2] != want {
		t.Errorf("want %d packets received and sent, the front end says\n%s", n, answer)
	}
}
