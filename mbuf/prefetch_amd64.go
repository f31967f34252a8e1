package mbuf

// PrefetchRead asks the processor for the first cache line of each slice, and
// does not wait for them: those who are about to read many frames that another
// processor has written have their lines come together.
func PrefetchRead(frames [][]byte) {
	if len(frames) > 0 {
		prefetchRead(&frames[0], len(frames))
	}
}

// PrefetchWrite asks for the first two cache lines of each slice, to write to
// them: a frame behind a virtio-net header begins in the first or in the second.
func PrefetchWrite(places [][]byte) {
	if len(places) > 0 {
		prefetchWrite(&places[0], len(places))
	}
}

//go:noescape
func prefetchRead(first *[]byte, n int)

//go:noescape
func prefetchWrite(first *[]byte, n int)
