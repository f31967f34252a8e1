// Package doctor looks a machine over for what driving virtio-net functions
// from user space takes, and says what is missing and which command mends it.
// It reads; it changes nothing.
//
// What a finding is worth follows one rule: it fails only when it keeps a
// function that is there, and that the kernel does not need, from being
// driven. All else that could be better is a warning: ports over vhost-user
// need none of it.
package doctor
