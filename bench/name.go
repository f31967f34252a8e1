package bench

import (
	"fmt"
	"slices"
	"strings"

	"vionet/bench/report"
)

// The words for transmit paths in names and coordinates.
const (
	simpleTx   = "simple"
	standardTx = "standard"
)

// ringKind is a word for rings in names, and the coordinates that it stands for.
type ringKind struct {
	word, ring      string
	inOrder, vector bool
}

var ringKinds = []ringKind{
	{word: "split", ring: "split"},
	{word: "split-inorder", ring: "split", inOrder: true},
	{word: "packed", ring: "packed"},
	{word: "packed-inorder", ring: "packed", inOrder: true},
	{word: "split-vec", ring: "split", vector: true},
	{word: "packed-vec", ring: "packed", inOrder: true, vector: true},
}

// withRing is a place with another ring.
func withRing(at report.Coordinates, word string) report.Coordinates {
	k := ringKinds[slices.IndexFunc(ringKinds, func(k ringKind) bool { return k.word == word })]
	at.Ring, at.InOrder, at.Vector = k.ring, k.inOrder, k.vector
	return at
}

func ringWord(at report.Coordinates) string {
	return ringKinds[slices.IndexFunc(ringKinds, func(k ringKind) bool {
		return k.ring == at.Ring && k.inOrder == at.InOrder && k.vector == at.Vector
	})].word
}

// nameOf is the systematic name of a place behind a prefix, as
// guest-to-host/split/mrg/simple/64B/1q/b32.
func nameOf(prefix string, at report.Coordinates) string {
	buffers, tx := "nomrg", at.Tx
	if at.Mergeable {
		buffers = "mrg"
	}
	if at.Offloads {
		tx = "offload"
	}
	words := []string{at.Topology, ringWord(at), buffers, tx, fmt.Sprintf("%dB", at.Size), fmt.Sprintf("%dq", at.Queues), fmt.Sprintf("b%d", at.Burst)}
	return prefix + strings.Join(words, "/")
}

// Prefixes of names: what is compared, unless it is front ends.
const (
	frontEnds = ""
	hostEnds  = "hosts/"
	simpler   = "simple-over-standard/" // and who sends
	merging   = "mergeable-over-plain/" // and whose host
	cleared   = "cleared/"
	bestOf    = "best/"
	zeroCopy  = "zero-copy/"
)
