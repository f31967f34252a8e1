package driver

import (
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// Rx offloads that need the header or the frame looked at. Scatter is not one
// of them: it is what mergeable buffers are.
const rxLooks = port.RxUDPCksum | port.RxTCPCksum | port.RxTCPLRO | port.RxVLANStrip | port.RxRSSHash

// rxPath chooses the receive function; the name is what DPDK calls such a
// path, the reasons are for people.
func rxPath(accepted virtio.Features, rx port.RxOffloads) (rxBurst, port.Path) {
	burst, p := rxFunction(accepted, rx)
	mergeable := accepted.Has(virtio.NetMrgRxbuf)
	switch {
	case accepted.Has(virtio.RingPacked) && mergeable:
		p.Name = "packed ring mergeable buffer"
	case accepted.Has(virtio.RingPacked):
		p.Name = "packed ring standard"
	case accepted.Has(virtio.InOrder):
		p.Name = "inorder"
	}
	return burst, p
}

func rxFunction(accepted virtio.Features, rx port.RxOffloads) (rxBurst, port.Path) {
	looks := rx & rxLooks
	if accepted.Has(virtio.NetMrgRxbuf) {
		p := port.Path{
			Name:   "mergeable buffer",
			Reason: "MRG_RXBUF is negotiated: a packet may span buffers",
			Unlock: "open the port with mrg_rxbuf=0",
		}
		if looks == 0 {
			return rxMergeable, p
		}
		p.Unlock += fmt.Sprintf(" and switch off %v", looks)
		return rxMergeableOffload, p
	}
	if looks != 0 {
		return rxStandard, port.Path{
			Name:   "standard",
			Reason: fmt.Sprintf("Rx offloads are on: %v", looks),
			Unlock: fmt.Sprintf("switch off %v", looks),
		}
	}
	return rxSimple, port.Path{
		Name:   "simple",
		Reason: "neither mergeable buffers nor Rx offloads",
	}
}

// txPath chooses the transmit function. It does not depend on mergeable
// receive buffers.
func txPath(accepted virtio.Features, tx port.TxOffloads, simpleAllowed bool) (txBurst, port.Path) {
	burst, p := txFunction(tx, simpleAllowed)
	switch {
	case accepted.Has(virtio.RingPacked):
		p.Name = "packed ring standard"
	case accepted.Has(virtio.InOrder):
		p.Name = "inorder"
	}
	return burst, p
}

func txFunction(tx port.TxOffloads, simpleAllowed bool) (txBurst, port.Path) {
	switch {
	case tx != 0:
		return txStandard, port.Path{
			Name:   "standard",
			Reason: fmt.Sprintf("Tx offloads are on: %v", tx),
			Unlock: fmt.Sprintf("switch off %v", tx),
		}
	case !simpleAllowed:
		return txStandard, port.Path{
			Name:   "standard",
			Reason: "simple_tx_support=0 was given",
			Unlock: "open the port without simple_tx_support=0",
		}
	default:
		return txSimple, port.Path{Name: "simple", Reason: "no Tx offload"}
	}
}
