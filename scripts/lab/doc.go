// Package lab is the workshop of the tests: real devices, real peers, and
// nothing left behind.
//
//   - Kernel fetches Debian's newest cloud kernel; nothing is installed.
//   - Start boots it in QEMU with the virtio-net functions of a Config and a
//     program of ours as the only process beside init.
//   - NewCable and Namespace.Cable give a guest a cable whose other end is in
//     the hands of the test.
//   - Station boots one whose Linux drives the function itself, with an address.
//   - StartDPDK runs dpdk-testpmd, as the back end or as the front end.
//   - StartOVS runs an Open vSwitch of its own, with vhost-user ports.
//   - Console is the dialogue with all of them: Send, Expect, Command.
//
// What a test starts dies with the test: each process has a deadline, is ended
// by Close, and is killed by the kernel should the test process die first.
// Network namespaces have no name, so they vanish with their last user.
//
// Most of it needs Linux on amd64, qemu-system-x86, dpdk-dev, iproute2,
// ethtool, openvswitch-switch-dpdk and root. Need says in a test what that test
// stands on.
package lab
