//go:build !amd64 || race

package ring

import "sync/atomic"

// ReleaseStore32 is more than it needs to be where Go has nothing less to offer.
func ReleaseStore32(addr *uint32, v uint32) { atomic.StoreUint32(addr, v) }

// ReleaseStore64 is ReleaseStore32 for 64 bits.
func ReleaseStore64(addr *uint64, v uint64) { atomic.StoreUint64(addr, v) }
