//go:build amd64 && !race

package ring

// ReleaseStore32 stores v where others load it with an atomic: who sees v sees
// everything that was written before it. It is no fence, unlike the stores of
// sync/atomic: the goroutine goes on while the other processors have yet to hear
// of v. So it is not for a store that is followed by a look, see the package
// comment.
//
//go:noescape
func ReleaseStore32(addr *uint32, v uint32)

// ReleaseStore64 is ReleaseStore32 for 64 bits.
//
//go:noescape
func ReleaseStore64(addr *uint64, v uint64)
