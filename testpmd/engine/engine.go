// Package engine holds testpmd's forwarding modes. A mode moves one burst at
// a time along a Stream, from a receive queue to a transmit queue; which
// goroutine drives which streams is the caller's business.
//
// Nothing here allocates, locks or calls an interface for each packet.
package engine

// Engine is a forwarding mode.
type Engine struct {
	Name  string // as "set fwd" takes it
	Alias string // another name, or ""
	// Forward moves one burst and returns the number of packets that it
	// had in hands; 0 says that there was nothing to do.
	Forward func(*Stream) int
	// Generates marks a mode that makes its packets itself.
	Generates bool
	// Checks marks a mode that looks at checksums.
	Checks bool
	// Sorts marks a mode that sorts packets into batches.
	Sorts bool
}

// All lists the forwarding modes in the order in which help shows them.
var All = []*Engine{IO, MAC, MACSwap, FlowGen, RxOnly, TxOnly, Csum, ICMPEcho, Noisy, FiveTupleSwap, SharedRxq, RecycleMbufs, FlowBatch}

// ByName gives the mode of that name, or nil.
func ByName(name string) *Engine {
	for _, e := range All {
		if e.Name == name || e.Alias == name && name != "" {
			return e
		}
	}
	return nil
}
