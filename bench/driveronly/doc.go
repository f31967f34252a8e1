// Package driveronly measures what a front end costs by itself: nanoseconds a packet
// against a back end that gives descriptors back without a look at what they point to.
//
// Two testpmds, DPDK's and vionet's, take turns over every path. Each has a back end on
// another processor ([Serve]); the slower of the two decides the rate, and that is the
// front end, which the back end's idle time tells. Their cost has the transfer of cache
// lines between the processors in it, and what the modes txonly and rxonly do besides.
//
// A [Loop] has nothing but the driver and its buffers. Driver and back end take turns in
// one goroutine, and only the driver's are timed: how many instructions the path takes
// at best. Rings, bursts, queues, buffers and segments vary.
package driveronly
