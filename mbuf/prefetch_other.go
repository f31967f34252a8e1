//go:build !amd64

package mbuf

// PrefetchRead does nothing but on amd64.
func PrefetchRead([][]byte) {}

// PrefetchWrite does nothing but on amd64.
func PrefetchWrite([][]byte) {}
