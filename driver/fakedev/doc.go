// Package fakedev is a virtio network device in the same process, for tests
// of the driver and of programs that use it: no hardware, no root, no second
// process.
//
// A Device is a driver.Transport. The test is the device: it takes the frames
// that the driver sent (Device.Sent), delivers others (Device.Deliver), or
// works on single chains of a virtqueue (Device.Queue), in any order it likes.
// Commands on the control queue it answers by itself, with OK or as a script
// says (Device.OnControl), and remembers (Device.Commands).
// And it can lie: refuse features, write ids and lengths that were never
// handed out, move indices at will.
package fakedev
