package engine

import "encoding/binary"

// FlowGen sends packets of many flows, which differ in their destination IP
// address, and frees what it receives.
var FlowGen = &Engine{Name: "flowgen", Forward: forwardFlowGen, Generates: true}

// DefaultFlows is the number of flows if nothing else was said, MaxFlows the
// largest.
const (
	DefaultFlows = 1024
	MaxFlows     = 1 << 20
)

// frameCheck is the length in bytes of an Ethernet frame check sequence. The
// lengths that people set count it for this mode's packets.
const frameCheck = 4

// flows is where mode flowgen stands.
type flows struct {
	headers template
	length  int    // bytes of a packet
	first   uint32 // destination of flow 0
	next    uint32 // the number of the flow whose turn it is
	count   uint32
}

func newFlows(cfg StreamConfig) flows {
	addrs := flowAddrs{
		src: [6]byte{0, 1, 2, 3, 4, 0}, dst: [6]byte{0, 1, 2, 3, 4, 1},
		srcIP: [4]byte{10, 254, 0, 0}, dstIP: [4]byte{10, 253, 0, 0},
		srcPort: 1000, dstPort: 1001,
	}
	f := flows{length: max(total(cfg.TxSegs)-frameCheck, MinTxLen), first: binary.BigEndian.Uint32(addrs.dstIP[:]), count: uint32(cfg.Flows)}
	if f.count == 0 {
		f.count = DefaultFlows
	}
	f.headers = newTemplate(addrs, f.length)
	return f
}

// step makes the headers those of the flow whose turn it is.
func (f *flows) step() { f.headers.setAddr(tmplTo, f.first+f.next) }

// skip ends a flow's turn.
func (f *flows) skip() {
	if f.next++; f.next >= f.count {
		f.next = 0
	}
}

func forwardFlowGen(s *Stream) int {
	received := forwardRxOnly(s)
	pkts := s.bufs[:s.cache.Get(s.bufs)]
	if len(pkts) == 0 {
		// Everything may sit in the transmit queue, sent already.
		s.Tx.Reclaim()
		return received
	}
	f := &s.flow
	copies := 0 // of the packet before that are still to be made
	for _, b := range pkts {
		if copies == 0 {
			f.step()
			copies = s.Clones + 1
		}
		copies--
		f.skip()
		b.Reset()
		// The headers fit in every buffer; a packet that does not is as long
		// as the buffer.
		data := b.Append(min(f.length, b.Tailroom()))
		copy(data, f.headers[:])
	}
	s.requestTags(pkts)
	s.send(pkts)
	return received + len(pkts)
}
