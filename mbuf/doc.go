// Package mbuf provides packet buffers and the memory under them.
//
// Memory is a range of this process that devices may reach: hugepages or
// plain pages behind a memory file, with one device address (IOVA) for every
// byte. A Pool cuts buffers (Buf) out of it once; nothing is allocated
// afterwards, unless Pool.Grow asks for more. A Cache is one goroutine's
// private stack in front of a pool, so that taking and giving back buffers
// costs no lock per packet.
//
// # Ownership
//
// A Buf belongs to exactly one holder: the pool, the application, or a port's
// queue. Pool.Get, Cache.Get and a receive burst hand it to the application;
// Free, Cache.Put and an accepted transmit burst take it away. Only the
// holder may touch the Buf or the bytes behind it.
package mbuf
