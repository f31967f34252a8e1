// Package port says what a port is: something that receives and transmits
// packets in bursts through queues. Forwarding engines and the console see
// nothing else of a driver. The virtio driver and the vhost back end are
// ports; small software ports live here.
//
// # Goroutines
//
// A Port's own methods are serialised by the port and may be called from any
// goroutine, also while packets move. A queue's burst methods belong to one
// goroutine at a time; the receive and the transmit queue of a pair may belong
// to two. Start and Stop must not run while a queue's burst method does.
package port
