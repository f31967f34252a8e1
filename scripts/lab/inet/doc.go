// Package inet is what a station on an IPv4 network does in the lab's tests,
// over the kernel's own stack: it takes an address, pings, looks neighbours up,
// and moves data over TCP whose integrity both ends check.
//
// All of it works in the network namespace of the calling thread; each wait has
// a limit. Guests run it as Command station, the host inside Namespace.Do.
package inet
