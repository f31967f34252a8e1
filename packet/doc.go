// Package packet gives a port to programs that want a net.PacketConn: whole
// Ethernet frames, copied in and out, with deadlines. It is the safe tier above
// the bursts of package port: no buffer is ever borrowed, any goroutine may call
// anything, and a read that waits sleeps.
//
// Listen takes any port.Port, a virtio device or a software port. What programs
// expect of such a connection is there:
//
//   - net.PacketConn, with addresses of the type Addr
//   - ReadBatch and WriteBatch, in the shape of golang.org/x/net
//   - SetBPF, for classic BPF filters, which run in this process
//   - SyscallConn, for loops that wait for several things at once
//
// A frame costs a copy, a lock and, when nothing is there, a sleep and a wake-up.
// Who needs the rate of bursts uses the queues themselves.
//
// Conn stands apart from package driver for two reasons. It needs nothing but a
// port.Port, and it takes the types Message and bpf.RawInstruction from
// golang.org/x/net, on which the driver does not depend.
package packet
