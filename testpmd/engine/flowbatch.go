package engine

import (
	"hash/maphash"

	"vionet/mbuf"
)

// FlowBatch sorts each burst into flows and sends one burst for each of them, as
// a switch does that looks flows up and then acts on them: with many flows, many
// bursts of few packets. The packets of a flow keep their order, and the flows
// come in the order of their first packets.
var FlowBatch = &Engine{Name: "flowbatch", Forward: forwardFlowBatch, Sorts: true}

func forwardFlowBatch(s *Stream) int {
	pkts := s.receive()
	if len(pkts) == 0 {
		return 0
	}
	if s.sorter == nil {
		s.sorter = newSorter(s.Burst)
	}
	sorted, batches, added := s.sorter.sort(pkts)
	s.Batches.Add(uint64(len(batches)))
	s.NewFlows.Add(uint64(added))
	for _, n := range batches {
		s.send(s.settle(sorted[:n]))
		sorted = sorted[n:]
	}
	return len(pkts)
}

// sorter brings bursts into the order of their flows.
type sorter struct {
	flows  flowTable
	of     []int       // the batch of each packet
	counts []int       // packets of each batch
	places []int       // where the next packet of each batch goes
	sorted []*mbuf.Buf // the burst, batch by batch
	fronts [][]byte    // the first segment of each packet
}

func newSorter(burst int) *sorter {
	return &sorter{
		flows: flowTable{seed: maphash.MakeSeed()}, of: make([]int, burst),
		counts: make([]int, 0, burst), places: make([]int, burst), sorted: make([]*mbuf.Buf, burst),
		fronts: make([][]byte, burst),
	}
}

// sort gives pkts batch by batch, the packets of each batch, and how many flows
// were not known before. A flow that lost its entry within the burst has one more
// batch behind its first.
func (o *sorter) sort(pkts []*mbuf.Buf) (sorted []*mbuf.Buf, batches []int, added int) {
	o.counts = o.counts[:0]
	o.flows.burst++
	o.fetch(pkts)
	for i, p := range pkts {
		f, known := o.flows.find(p)
		if !known {
			added++
		}
		if f.burst != o.flows.burst {
			f.burst, f.batch = o.flows.burst, len(o.counts)
			o.counts = append(o.counts, 0)
		}
		o.of[i] = f.batch
		o.counts[f.batch]++
	}
	place := 0
	for batch, n := range o.counts {
		o.places[batch] = place
		place += n
	}
	for i, p := range pkts {
		place := &o.places[o.of[i]]
		o.sorted[*place] = p
		*place++
	}
	return o.sorted[:len(pkts)], o.counts, added
}

// fetch has the headers of all packets come at once, and not one after the other.
func (o *sorter) fetch(pkts []*mbuf.Buf) {
	for i, p := range pkts {
		o.fronts[i] = p.Bytes()
	}
	mbuf.PrefetchRead(o.fronts[:len(pkts)])
}
