package port

import (
	"math/bits"
	"strings"
)

// RxOffloads is a set of receive offloads. The bits and their names are those
// of DPDK, which scripts use as numbers too.
type RxOffloads uint64

// Receive offloads.
const (
	RxVLANStrip RxOffloads = 1 << 0
	RxIPv4Cksum RxOffloads = 1 << 1
	RxUDPCksum  RxOffloads = 1 << 2
	RxTCPCksum  RxOffloads = 1 << 3
	RxTCPLRO    RxOffloads = 1 << 4
	RxVLANFilt  RxOffloads = 1 << 9
	RxVLANExt   RxOffloads = 1 << 10
	RxScatter   RxOffloads = 1 << 13
	RxRSSHash   RxOffloads = 1 << 19
)

// TxOffloads is a set of transmit offloads, numbered and named as DPDK does.
type TxOffloads uint64

// Transmit offloads.
const (
	TxVLANInsert TxOffloads = 1 << 0
	TxIPv4Cksum  TxOffloads = 1 << 1
	TxUDPCksum   TxOffloads = 1 << 2
	TxTCPCksum   TxOffloads = 1 << 3
	TxSCTPCksum  TxOffloads = 1 << 4
	TxTCPTSO     TxOffloads = 1 << 5
	TxUDPTSO     TxOffloads = 1 << 6
	TxMultiSegs  TxOffloads = 1 << 15
)

var rxOffloadNames = [64]string{
	0: "VLAN_STRIP", 1: "IPV4_CKSUM", 2: "UDP_CKSUM", 3: "TCP_CKSUM",
	4: "TCP_LRO", 5: "QINQ_STRIP", 6: "OUTER_IPV4_CKSUM", 7: "MACSEC_STRIP",
	9: "VLAN_FILTER", 10: "VLAN_EXTEND", 13: "SCATTER", 14: "TIMESTAMP",
	15: "SECURITY", 16: "KEEP_CRC", 17: "SCTP_CKSUM", 18: "OUTER_UDP_CKSUM",
	19: "RSS_HASH", 20: "BUFFER_SPLIT",
}

var txOffloadNames = [64]string{
	0: "VLAN_INSERT", 1: "IPV4_CKSUM", 2: "UDP_CKSUM", 3: "TCP_CKSUM",
	4: "SCTP_CKSUM", 5: "TCP_TSO", 6: "UDP_TSO", 7: "OUTER_IPV4_CKSUM",
	8: "QINQ_INSERT", 9: "VXLAN_TNL_TSO", 10: "GRE_TNL_TSO",
	11: "IPIP_TNL_TSO", 12: "GENEVE_TNL_TSO", 13: "MACSEC_INSERT",
	14: "MT_LOCKFREE", 15: "MULTI_SEGS", 16: "MBUF_FAST_FREE",
	17: "SECURITY", 18: "UDP_TNL_TSO", 19: "IP_TNL_TSO",
	20: "OUTER_UDP_CKSUM", 21: "SEND_ON_TIMESTAMP",
}

// String gives the names of the set's members separated by spaces.
func (o RxOffloads) String() string { return offloadNames(uint64(o), &rxOffloadNames) }

// String gives the names of the set's members separated by spaces.
func (o TxOffloads) String() string { return offloadNames(uint64(o), &txOffloadNames) }

func offloadNames(set uint64, names *[64]string) string {
	var out []string
	for ; set != 0; set &= set - 1 {
		name := names[bits.TrailingZeros64(set)]
		if name == "" {
			name = "UNKNOWN"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// ParseRxOffload gives the offload of a name in any case, as testpmd's
// "port config N rx_offload NAME on" takes it.
func ParseRxOffload(name string) (RxOffloads, bool) {
	bit, ok := offloadBit(name, &rxOffloadNames)
	return RxOffloads(bit), ok
}

// ParseTxOffload gives the offload of a name in any case.
func ParseTxOffload(name string) (TxOffloads, bool) {
	bit, ok := offloadBit(name, &txOffloadNames)
	return TxOffloads(bit), ok
}

func offloadBit(name string, names *[64]string) (uint64, bool) {
	for i, n := range names {
		if n != "" && strings.EqualFold(n, name) {
			return 1 << i, true
		}
	}
	return 0, false
}
