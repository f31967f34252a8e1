package driver_test

import (
	"fmt"
	"log"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// A port receives for a second station. The device refuses the third: a program
// can be tested against that, too.
func ExampleDevice_AddMAC() {
	dev := fakedev.New(fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetCtrlVQ | virtio.NetCtrlRx | virtio.NetCtrlMACAddr})
	nic, err := driver.Open(dev, driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	defer nic.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1024})
	if err != nil {
		log.Fatal(err)
	}
	if err := nic.Configure(port.Config{Pool: pool}); err != nil {
		log.Fatal(err)
	}
	if err := nic.Start(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(nic.AddMAC([]byte{2, 0, 0, 0, 0, 2}))
	dev.OnControl(func(c fakedev.Command) fakedev.Answer {
		return fakedev.Answer{Status: virtio.CtrlErr}
	})
	fmt.Println(nic.AddMAC([]byte{2, 0, 0, 0, 0, 3}))
	fmt.Println(nic.MACs())
	// Output:
	// <nil>
	// fake0: MAC address filter: MAC_TABLE_SET: the device refused the command
	// [52:54:00:00:00:01 02:00:00:00:00:02]
}
