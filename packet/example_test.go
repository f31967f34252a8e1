package packet_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"golang.org/x/net/bpf"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/packet"
	"vionet/virtio"
)

// A device as a net.PacketConn. The fake device stands in for a transport of
// package pci or vhost; nothing else would differ.
func ExampleListen() {
	device := fakedev.New(fakedev.Config{})
	port, err := driver.Open(device, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := packet.Listen(port, packet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	// The world sends a frame.
	hello := []byte("\x52\x54\x00\x00\x00\x02" + "\x52\x54\x00\x00\x00\x01" + "\x88\xb5" + "hello")
	if err := device.Deliver(0, virtio.NetHeader{}, hello); err != nil {
		log.Fatal(err)
	}

	buf := make([]byte, 18+conn.MTU())
	n, from, err := conn.ReadFrom(buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q from %v\n", buf[14:n], from)

	copy(buf[0:6], buf[6:12]) // back to where it came from
	if _, err := conn.WriteTo(buf[:n], from); err != nil {
		log.Fatal(err)
	}
	sent, err := device.Sent(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d frame to % x\n", len(sent), sent[0].Data[:6])
	// Output:
	// "hello" from 52:54:00:00:00:01
	// 1 frame to 52 54 00 00 00 01
}

// A read waits until its deadline, and not in vain for what a filter drops.
func ExampleConn_SetBPF() {
	device := fakedev.New(fakedev.Config{})
	port, err := driver.Open(device, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := packet.Listen(port, packet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	onlyARP, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x0806, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.SetBPF(onlyARP); err != nil {
		log.Fatal(err)
	}
	if err := device.Deliver(0, virtio.NetHeader{}, []byte("a frame of some other protocol")); err != nil {
		log.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, _, err = conn.ReadFrom(make([]byte, 1518))
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
	// Output:
	// true
}
