package virtio

import "testing"

// TestControlNumbers holds class and number against virtio 1.2, section
// 5.1.6.5.
func TestControlNumbers(t *testing.T) {
	tests := []struct {
		c             ControlCommand
		class, number uint8
		name          string
	}{
		{CtrlRxPromisc, 0, 0, "RX_PROMISC"},
		{CtrlRxNoBcast, 0, 5, "RX_NOBCAST"},
		{CtrlMACTableSet, 1, 0, "MAC_TABLE_SET"},
		{CtrlMACAddrSet, 1, 1, "MAC_ADDR_SET"},
		{CtrlVLANDel, 2, 1, "VLAN_DEL"},
		{CtrlAnnounceAck, 3, 0, "ANNOUNCE_ACK"},
		{CtrlMQPairsSet, 4, 0, "MQ_VQ_PAIRS_SET"},
		{CtrlMQRSSConfig, 4, 1, "MQ_RSS_CONFIG"},
		{CtrlMQHashConfig, 4, 2, "MQ_HASH_CONFIG"},
		{CtrlGuestOffloadsSet, 5, 0, "GUEST_OFFLOADS_SET"},
		{CtrlNotfCoalTxSet, 6, 0, "NOTF_COAL_TX_SET"},
		{CtrlNotfCoalRxSet, 6, 1, "NOTF_COAL_RX_SET"},
		{0x0903, 9, 3, "command 3 of class 9"},
	}
	for _, tt := range tests {
		if tt.c.Class() != tt.class || tt.c.Number() != tt.number || tt.c.String() != tt.name {
			t.Errorf("%v is %d/%d, want %s, %d/%d", tt.c, tt.c.Class(), tt.c.Number(), tt.name, tt.class, tt.number)
		}
	}
}

func TestControlQueueNumber(t *testing.T) {
	for f, want := range map[Features]int{
		NetCtrlVQ: 2, NetCtrlVQ | NetMQ: 14, NetCtrlVQ | NetRSS: 14,
	} {
		if got := ControlQueue(f, 7); got != want {
			t.Errorf("%v, 7 pairs: virtqueue %d, want %d", f, got, want)
		}
	}
}

func TestHashTypes(t *testing.T) {
	if HashUDPv6Ex != 1<<8 || HashTCPv4 != 2 {
		t.Errorf("UDPv6Ex is %#x, TCPv4 %#x", uint32(HashUDPv6Ex), uint32(HashTCPv4))
	}
	if got := (HashTCPv4 | HashIPv6Ex | 1<<31).String(); got != "ipv4-tcp ipv6-ex" {
		t.Errorf("%q", got)
	}
	for i := range 9 {
		h := HashTypes(1) << i
		if got, ok := ParseHashType(h.String()); !ok || got != h {
			t.Errorf("%v parsed as %v, %v", h, got, ok)
		}
	}
	if _, ok := ParseHashType("ipv5"); ok {
		t.Error("ipv5 is a hash type")
	}
}

func TestDecodeHash(t *testing.T) {
	b := make([]byte, 20)
	copy(b[12:], []byte{4, 3, 2, 1, 0, 0})
	if _, ok := DecodeHash(b); ok {
		t.Error("a hash although the report says none")
	}
	b[16] = 9
	if hash, ok := DecodeHash(b); !ok || hash != 0x01020304 {
		t.Errorf("%#x, %v", hash, ok)
	}
}
