package testpmd

import (
	"errors"
	"slices"
	"testing"

	"vionet/port"
)

// attachBench is a bench that can open net_fake1, net_fake2, ….
func attachBench(t *testing.T) (b *bench, detached *[]string) {
	detached = new([]string)
	b = startedBench(t, 1, func(c *Config) {
		c.Attach = func(ident string) (port.Port, error) {
			if ident == "foo_bar" {
				return nil, errors.New("there is no foo_bar")
			}
			f := newFakePort(1, c.Out.(*buffer))
			f.info.Name, f.promErr = ident, port.ErrNotSupported
			return f, nil
		}
		c.Detach = func(p port.Port) error {
			*detached = append(*detached, p.Name())
			return nil
		}
	})
	return b, detached
}

func TestAttachAndDetach(t *testing.T) {
	b, detached := attachBench(t)
	b.check(t, `testpmd> port attach net_fake1
Attaching a new port...
Error during enabling promiscuous mode for port 1: Operation not supported - ignore
Port 1 is attached. Now total ports is 2
Done
testpmd> port attach foo_bar
Attaching a new port...
there is no foo_bar
testpmd: Failed to attach port foo_bar
testpmd> port attach net_fake1,size=64
Attaching a new port...
attach net_fake1,size=64: port 1 is that device
testpmd: Failed to attach port net_fake1,size=64
testpmd> port attach
Bad arguments
testpmd> show config fwd
io packet forwarding - ports=1 - cores=1 - streams=1 - NUMA support enabled, MP allocation mode: native
Logical Core 1 (socket 0) forwards packets on 1 streams:
  RX P=0/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

testpmd> show device info net_fake1

********************* Infos for device net_fake1 *********************
Bus name: vdev
Bus information: 
Driver name: net_virtio_user
Devargs: path=/tmp/x.sock
Connect to socket: -1

	Port id: 1 
	MAC address: 52:54:00:58:D7:02
	Device name: net_fake1
	Device speed capability: Autonegotiate (all speeds)
testpmd> show device info foo
cannot parse identifier
testpmd> start
Not all ports were started
testpmd> port detach 1
Port was not closed
Removing a device...
Port 1 is closed
Device is detached
Now total ports is 1
Done
testpmd> port detach 9
Invalid port_id=9
testpmd> port detach 0
Port not stopped
testpmd> device detach net_fake1
Removing a device...
testpmd: Failed to detach device net_fake1(vdev)
testpmd> device detach net_virtio_user0
Removing a device...
Port 0 not stopped
testpmd> port attach net_fake2
Attaching a new port...
Error during enabling promiscuous mode for port 1: Operation not supported - ignore
Port 1 is attached. Now total ports is 2
Done
testpmd> device detach net_fake2
Removing a device...
Port 1 is closed
Device net_fake2 is detached
Now total ports is 1
Done
`)
	if want := []string{"net_fake1", "net_fake2"}; !slices.Equal(*detached, want) {
		t.Errorf("let go of %v, want %v", *detached, want)
	}
}

func TestAttachedPortForwards(t *testing.T) {
	b, _ := attachBench(t)
	b.run("port attach net_fake1", "port start 1", "set portlist 0,1", "start tx_first")
	b.check(t, `testpmd> port detach 1
Port not stopped
`)
	b.run("stop", "port stop all", "port detach 0")
	b.check(t, `testpmd> port attach net_fake0
Attaching a new port...
Error during enabling promiscuous mode for port 0: Operation not supported - ignore
Port 0 is attached. Now total ports is 2
Done
`)
	if b.pool.Free() != b.pool.Size() {
		t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}
}

func TestAttachWithoutDevices(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> port attach net_null7
Attaching a new port...
attach net_null7: operation not supported
testpmd: Failed to attach port net_null7
`)
}

func TestPortReset(t *testing.T) {
	b, rich := richBench(t, nil)
	b.check(t, `testpmd> port reset 0
Can not reset port(s), please stop port(s) first.
testpmd> port reset 9
Invalid port 9
testpmd> port reset all
Can not reset port(s), please stop port(s) first.
`)
	b.run("port stop 0")
	rich.calls = nil
	b.check(t, `testpmd> port reset 0
Resetting ports...
Done
`)
	if !slices.Equal(rich.calls, []string{"restart", "stop"}) {
		t.Errorf("reset made the port %v", rich.calls)
	}
	rich.startErr = errors.New("no more power")
	b.check(t, `testpmd> port reset all
Resetting ports...
Failed to reset port 0. diag=-5: no more power
Done
`)
	plain := newBench(t, 1, nil)
	plain.check(t, `testpmd> port reset 0
Resetting ports...
Done
`)
}

func TestNoPortsLeft(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("port stop 0", "port close 0")
	b.check(t, `testpmd> port start all
Done
testpmd> port stop all
Stopping ports...
Done
testpmd> port reset all
Resetting ports...
Done
testpmd> port close all
Closing ports...
Done
testpmd> port start 0
Invalid port 0
testpmd> show port info all
testpmd> show port stats all
testpmd> show port info 0
Invalid port 0
The valid ports array is [ ]
testpmd> show port summary all
Number of available ports: 0
Port MAC Address       Name         Driver         Status   Link
testpmd> show config rxtx
  io packet forwarding packets/burst=32
  nb forwarding cores=1 - nb forwarding ports=0
`)
}
