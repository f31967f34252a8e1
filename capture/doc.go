// Package capture copies packets as they pass a port's queues, and writes them to
// pcapng files that Wireshark and tshark read.
//
// A Writer makes such a file out of frames that a program has in its hands. A Tap
// goes in front of queues that a program drives: a Recorder can be put on it at any
// time, also while packets move, and writes what passes from a goroutine of its
// own. Traffic never waits for the disk: what cannot be copied in time is counted
// and left out.
//
// Every port, queue and direction is an interface of the file, with a name such as
// "port0-rx-q1". Each packet also has its direction (epb_flags) and queue
// (epb_queue) with it, and a time in nanoseconds. At the end of the file stand how
// many packets of each interface there were, and how many were left out.
package capture
