package driver

import (
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Transport is how the driver talks to one device: virtio over PCI (VFIO,
// UIO), a vhost-user socket, or the scripted device of package fakedev.
//
// The driver calls it from one goroutine at a time, except a queue's Kick,
// which belongs to the goroutine that transmits or receives on that queue.
// Every method returns within a bounded time. Errors say which step failed
// and what to do about it.
type Transport interface {
	// Name is the device's name: a PCI address or a --vdev name.
	Name() string
	// Driver is the name that DPDK has for such a port: "net_virtio" or
	// "net_virtio_user".
	Driver() string
	// Addressing says which device addresses this device can use.
	Addressing() port.Addressing
	// Map makes mem visible to the device. It is called once, before any
	// SetupQueue; the memory stays mapped until Close.
	Map(mem *mbuf.Memory) error
	// Reset writes status 0 and waits until the device has become quiet
	// (virtio 1.2, section 2.4), timeout at most. It undoes SetupQueue and
	// forgets the negotiated features. After an error the device may still use
	// the memory, unless it wraps port.ErrGone.
	Reset(timeout time.Duration) error
	// Status reads the device status field.
	Status() (virtio.Status, error)
	// SetStatus writes it. The bits that are set already are in s too.
	SetStatus(s virtio.Status) error
	// Features reads what the device offers.
	Features() (virtio.Features, error)
	// SetFeatures writes what the driver accepts.
	SetFeatures(accepted virtio.Features) error
	// ReadConfig fills b from the device's configuration space, coherent
	// within the call (section 2.5.1).
	ReadConfig(offset int, b []byte) error
	// MaxPairs is the number of queue pairs that can be brought into use
	// without a control queue; at least 1.
	MaxPairs() int
	// QueueSize is the largest size of virtqueue index, or 0 when there is
	// no such queue.
	QueueSize(index int) (int, error)
	// SetupQueue tells the device about a virtqueue and enables it. It is
	// called after SetFeatures and before DRIVER_OK; in no other state.
	SetupQueue(q port.QueueSetup) (port.Kicker, error)
	// QueueEvent is what virtqueue index signals, after a SetupQueue that asked
	// for interrupts. Without them the error wraps port.ErrNotSupported. The
	// Waiter ends with the next Reset or Close.
	QueueEvent(index int) (port.Waiter, error)
	// EnablePairs tells the device that the first n queue pairs are in use,
	// where that needs no control queue; otherwise it returns an error that
	// wraps port.ErrNotSupported. It is called after DRIVER_OK.
	EnablePairs(n int) error
	// Watch registers the function that is told, on a goroutine of the
	// transport's own, of changes of the configuration or of the link.
	Watch(changed func())
	// Close resets the device, unmaps the memory and gives the device back. It
	// reaches the memory no more, whatever of that failed. A second call does
	// nothing.
	Close() error
}
