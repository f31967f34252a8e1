// Package driver is a poll-mode driver for virtio network devices (virtio
// 1.2, section 5.1).
//
// Open takes a Transport, a way to one device, and gives a Device, which is a
// port.Port. At every Start the device is reset and only those features are
// negotiated that the configuration asks for. From them follow the burst
// functions, one plain function for each path:
//
//	Tx simple     no offload: one descriptor a packet, a zero header in
//	              front of it, nothing filled in
//	Tx standard   checksum, TSO, VLAN insertion, several segments
//	Rx simple     one buffer a packet, no offload
//	Rx standard   one buffer a packet, header and VLAN tag looked at
//	Rx mergeable  a packet may span buffers
//
// Device.Paths says which were chosen, why, and what would have to change for
// a simpler one.
//
// Where the device has a control queue, Device has the optional interfaces of
// package port: receive modes, address and VLAN filters, RSS, coalescing. What
// they set outlives the reset of every Start. Each command ends within
// Options.ControlTimeout, and at once when the port is stopped.
//
// A UMEM is memory of the application's own that a port sends from and receives
// into without a copy; an XSK is its four rings on a queue pair, with the names
// of AF_XDP.
//
// Programs that want frames rather than buffers take a Device as a net.PacketConn
// from package packet.
//
// The queues follow the goroutine rules of package port. Nothing that the
// device writes is trusted: a queue whose device breaks a rule stops, says so
// through Err, and works again after Stop and Start.
package driver
