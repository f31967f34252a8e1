package driver

import (
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// Features behind the offloads. A group is complete: the features that it
// depends on (virtio 1.2, section 5.1.3.1) are in it.
const (
	txChecksumFeatures = virtio.NetCSUM
	txTSOFeatures      = virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetCSUM
	txUSOFeatures      = virtio.NetHostUSO | virtio.NetCSUM
	rxChecksumFeatures = virtio.NetGuestCSUM
	rxLROFeatures      = virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestCSUM | virtio.NetMrgRxbuf
)

// baseFeatures are taken whenever the device has them: the driver needs them
// to read the device right, whatever the application asks for.
const baseFeatures = virtio.Version1 | virtio.AnyLayout | virtio.AccessPlatform |
	virtio.RingPacked | virtio.InOrder | virtio.EventIdx |
	virtio.NotificationData | virtio.OrderPlatform | virtio.RingReset |
	virtio.NetMAC | virtio.NetStatus | virtio.NetMTU | virtio.NetSpeedDuplex | virtio.NetMrgRxbuf

// unwantedFeatures are those that the options keep from being negotiated: the
// kinds of rings that nobody asked for, and what was switched off.
func unwantedFeatures(o Options) virtio.Features {
	var f virtio.Features
	for bit, unwanted := range map[virtio.Features]bool{
		virtio.RingPacked:  o.NoPacked,
		virtio.InOrder:     !o.InOrder,
		virtio.EventIdx:    !o.EventIdx,
		virtio.NetMrgRxbuf: o.NoMergeable,
	} {
		if unwanted {
			f |= bit
		}
	}
	return f
}

// rxCapabilities are the Rx offloads that a device with the offered features
// can serve.
func rxCapabilities(offered virtio.Features) port.RxOffloads {
	capa := port.RxVLANStrip
	if offered.Has(rxChecksumFeatures) {
		capa |= port.RxUDPCksum | port.RxTCPCksum
	}
	if offered.Has(rxLROFeatures) {
		capa |= port.RxTCPLRO
	}
	if offered.Has(virtio.NetMrgRxbuf) {
		capa |= port.RxScatter
	}
	if offered.Has(rxVLANFeatures) {
		capa |= port.RxVLANFilt
	}
	if offered.Has(rxHashFeatures) {
		capa |= port.RxRSSHash
	}
	return capa
}

// txCapabilities are the Tx offloads that a device with the offered features
// can serve. Tags and segments are the driver's own work.
func txCapabilities(offered virtio.Features) port.TxOffloads {
	capa := port.TxVLANInsert | port.TxMultiSegs
	if offered.Has(txChecksumFeatures) {
		capa |= port.TxUDPCksum | port.TxTCPCksum
	}
	if offered.Has(txTSOFeatures) {
		capa |= port.TxTCPTSO
	}
	if offered.Has(txUSOFeatures) {
		capa |= port.TxUDPTSO
	}
	return capa
}

// offloadFeatures are the features that the configured offloads need.
func offloadFeatures(cfg port.Config) virtio.Features {
	var need virtio.Features
	if cfg.TxOffloads&(port.TxUDPCksum|port.TxTCPCksum) != 0 {
		need |= txChecksumFeatures
	}
	if cfg.TxOffloads&port.TxTCPTSO != 0 {
		need |= txTSOFeatures
	}
	if cfg.TxOffloads&port.TxUDPTSO != 0 {
		need |= txUSOFeatures
	}
	if cfg.RxOffloads&(port.RxUDPCksum|port.RxTCPCksum) != 0 {
		need |= rxChecksumFeatures
	}
	if cfg.RxOffloads&port.RxTCPLRO != 0 {
		need |= rxLROFeatures
	}
	if cfg.RxOffloads&port.RxScatter != 0 {
		need |= virtio.NetMrgRxbuf
	}
	if cfg.RxOffloads&port.RxVLANFilt != 0 {
		need |= rxVLANFeatures
	}
	if cfg.RxOffloads&port.RxRSSHash != 0 {
		need |= rxHashFeatures
	}
	if cfg.RSS != nil {
		need |= rssFeatures
	}
	return need
}

// helpfulFeatures are those that the configured offloads can do without, but
// do better with.
func helpfulFeatures(cfg port.Config) (f virtio.Features) {
	if cfg.TxOffloads&(port.TxMultiSegs|port.TxTCPTSO|port.TxUDPTSO) != 0 {
		f |= virtio.IndirectDesc
	}
	if cfg.TxOffloads&port.TxTCPTSO != 0 {
		f |= virtio.NetHostECN
	}
	if cfg.RxOffloads&port.RxTCPLRO != 0 {
		f |= virtio.NetGuestECN | virtio.NetGuestUSO4 | virtio.NetGuestUSO6
	}
	return f
}

// selectFeatures gives what to acknowledge: of the known bits those that the
// configuration needs, and nothing else, so that a device with features of a
// later specification is not told that the driver knows them.
func selectFeatures(offered virtio.Features, cfg port.Config) (virtio.Features, error) {
	need := offloadFeatures(cfg)
	if missing := need &^ offered; missing != 0 {
		return 0, &FeatureError{Asked: fmt.Sprintf("Rx offloads [%v] Tx offloads [%v]", cfg.RxOffloads, cfg.TxOffloads), Missing: missing}
	}
	accepted := offered&baseFeatures | need | controlFeatures(offered, need, cfg)
	accepted |= offered & helpfulFeatures(cfg)
	if accepted.Has(virtio.Version1) {
		accepted &^= virtio.AnyLayout // a bit of legacy devices only
	} else if !accepted.Has(virtio.AnyLayout) {
		return 0, &FeatureError{Asked: "one descriptor for header and data", Missing: virtio.Version1}
	}
	return accepted, nil
}
