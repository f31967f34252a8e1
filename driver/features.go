package driver

import "vionet/virtio"

// knownFeatures are all that this driver ever acknowledges.
const knownFeatures = baseFeatures | virtio.IndirectDesc |
	txTSOFeatures | txUSOFeatures | rxLROFeatures | virtio.NetHostECN | virtio.NetGuestECN | virtio.NetGuestUSO4 | virtio.NetGuestUSO6 | rxHashFeatures | rxVLANFeatures | rssFeatures |
	virtio.NetCtrlRx | virtio.NetCtrlRxExtra | virtio.NetCtrlMACAddr | virtio.NetNotfCoal |
	virtio.NetGuestAnnounce | virtio.NetMQ | virtio.NetCtrlGuestOffloads

// Features are the names of the features that the device offers, those that the
// configuration asks for, and those that the last Start negotiated.
func (d *Device) Features() (offered, asked, negotiated []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	need := offloadFeatures(d.cfg)
	wish := (baseFeatures&^unwantedFeatures(d.opts) | need | helpfulFeatures(d.cfg) | controlFeatures(knownFeatures, need, d.cfg)) & knownFeatures
	return d.everything.Names(), wish.Names(), d.accepted.Names()
}
