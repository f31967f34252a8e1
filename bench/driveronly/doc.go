// Package driveronly measures what a front end costs by itself: nanoseconds a packet
// against a back end that gives descriptors back without a look at what they point to
// ([Serve]). One processor drives the front end, another the back end; the slower of
// the two decides the rate, and that has to be the front end, which the back end's idle
// time tells.
//
// The front ends are testpmd's, DPDK's and vionet's, whose modes txonly and rxonly
// have a generator and a sink besides the driver ([Paths]); and a loop with nothing but
// the driver and its buffers ([Drive]), whose rings, bursts, queues, buffers and
// segments can be varied ([Growth]).
package driveronly
