//go:build !amd64

package mbuf

// PrefetchRead and PrefetchWrite do nothing but on amd64.
func PrefetchRead([][]byte) {}

func PrefetchWrite([][]byte) {}
