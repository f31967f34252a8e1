// Package vhost speaks the vhost-user protocol: a virtio device whose two
// halves are processes on one machine. Control messages go over a unix
// socket, memory is shared through file descriptors that travel with them, and
// packets never touch the socket.
//
// A Frontend is the driver's half, as a transport for package driver: it
// shares its memory, sets rings up and kicks. A Backend is the device's half:
// it maps that memory and serves the rings, split and packed. A Loopback is a
// back end that returns every frame; with a Frontend in the same process it
// makes a device out of nothing but memory. NewPort gives the back end the shape
// of any other port: what it receives is what the guest sent, copied or, with
// dequeue zero copy, in the guest's own memory.
//
// The protocol is QEMU's docs/interop/vhost-user. Both halves speak it in
// little-endian order, on the machines that Go calls little-endian. Both have
// its features MQ, REPLY_ACK, NET_MTU, BACKEND_REQ, CONFIG, INFLIGHT_SHMFD,
// CONFIGURE_MEM_SLOTS and STATUS, and do without any of them. The back end has
// LOG_SHMFD, RARP and RESET_DEVICE as well, which virtual machines ask for.
//
// # Guests that move
//
// A front end that is a virtual machine can take its guest elsewhere while the
// rings run. It shares a log, in which the back end notes every page that it
// writes to, and copies those pages until the rings stop; then the back end at
// the other end goes on where this one was, and announces the guest to the
// network when the guest cannot.
//
// # Guests with an IOMMU
//
// A back end that offers ACCESS_PLATFORM may be given addresses that only the
// front end can translate. It keeps the translations that it is sent, 2048 at
// most, and asks for those that are missing over the socket of BACKEND_REQ. A
// burst that needs one ends there, and comes back to the same buffer; a ring
// that has lost one of its own areas waits.
//
// # When one half goes away
//
// A Backend serves the next front end. A Frontend waits for the next back end,
// whichever of the two listens, and tells it all that the one before was told.
// What that one had in hand is served again:
//
//   - Every buffer is completed in the order in which it was made available, so
//     that one number for each ring says where to go on.
//   - In a split virtqueue that is the used index, which is shared.
//   - In a packed virtqueue it is noted in the inflight memory, together with the
//     descriptors that are about to be written over. Without inflight memory the
//     rings cannot go on, and the device asks for a reset.
//
// # Trust
//
// Neither half believes the other. Sizes, indices, addresses and the number of
// file descriptors of every message are checked before anything is done;
// every descriptor that came along with a bad message is closed. A front end
// that takes its memory away while its rings run, by shortening the file, loses
// its connection and nothing else; a queue whose rules it breaks is silent until
// it is started anew.
//
// With dequeue zero copy, frames are read where they lie, outside of the back end,
// and memory that goes away then makes the process die of SIGBUS. Frames are
// therefore lent of memory files alone that are sealed against shrinking, unless
// the configuration trusts the front end. Memory of this front end is sealed.
//
// The socket is open to its user and root only, unless the configuration says
// otherwise.
package vhost
