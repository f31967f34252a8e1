// Package netstack puts gVisor's TCP/IP stack on a port: sockets, and with them
// net.Listener, net.Conn and net/http, that reach the network without the kernel.
//
// An Endpoint is the link between the two. It is a stack.LinkEndpoint and a
// stack.GSOEndpoint over any port.Port: a virtio device, the vhost-user back end,
// a cable between two ports. New configures and starts the port, AddTo makes a
// network interface of a stack with it, and Close ends both. The package is a
// module of its own, so that who does without it does without gVisor.
//
// # Receiving
//
// One goroutine a queue takes frames from the port, copies them into the stack's
// buffers and delivers them. While nothing comes it sleeps, after a spin if one
// is configured, and costs nothing.
//
// # Sending
//
// A connection's packets leave on the queue that its hash chooses, in order.
// Whoever sends copies them into the port's buffers and hands them to the port
// itself: no goroutine and no list stands in between, which would cost a wake-up
// for each packet and hide from the sender that the ring is full. One sender at
// a time has the turn on a queue.
//
// A sender waits for room in the ring. It does so for a limited time, and what was
// not sent then is refused with an error and counted: TCP sends it again later, and
// a datagram is lost, as it is in a kernel whose queue is full. The goroutine that
// receives must not wait for long for others to receive, or two stacks that answer
// each other's pings could stand still: what may come from it, which is all that
// belongs to no TCP connection, waits 20 ms at most, and the rest 5 s. While the
// link is down nobody waits.
//
// # Offloads
//
// TCP leaves its checksums, and the cutting of large packets into segments, to
// the endpoint. It asks the port for both where the port has them, and does with
// package offload what is left. Other checksums are the stack's: a UDP datagram
// may go out in fragments, of which no device sees the whole.
//
// Of received packets the stack verifies all that the device does not vouch for
// (DATA_VALID and NEEDS_CSUM of virtio 1.2, section 5.1.6.4). Packets that the
// device has put together (LRO) are taken as they are.
package netstack
