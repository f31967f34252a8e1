package metrics

import (
	"os"
	"path/filepath"
	"testing"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/pcapport"
	"vionet/port/ringport"
	"vionet/vhost"
)

// Every kind of port says which queues it has, and which of them have stopped.
func TestFaultsOfAllPorts(t *testing.T) {
	pool := newPool(t, "mb_pool_0")
	cut := filepath.Join(t.TempDir(), "cut.pcap")
	header := "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00"
	if err := os.WriteFile(cut, []byte(header+"half a packet"), 0o600); err != nil {
		t.Fatal(err)
	}
	virtio, _ := fake(t, "fake")
	for kind, open := range map[string]func() (port.Port, error){
		"virtio": func() (port.Port, error) { return virtio, nil },
		"null":   func() (port.Port, error) { return port.NewNull(port.NullConfig{}) },
		"pcap": func() (port.Port, error) {
			return pcapport.New(pcapport.Config{RxFiles: []string{cut}, TxFiles: []string{filepath.Join(t.TempDir(), "out.pcap")}})
		},
		"ring": func() (port.Port, error) {
			p, _, err := ringport.NewPair("a", "b", 64)
			return p, err
		},
		"vhost": func() (port.Port, error) {
			return vhost.NewPort(vhost.PortConfig{Path: filepath.Join(t.TempDir(), "s")})
		},
	} {
		p, err := open()
		if err != nil {
			t.Fatal(err)
		}
		faulter := p.(port.Faulter)
		none := func(when string) {
			t.Helper()
			if rx, tx := faulter.Faults(); len(rx)+len(tx) != 0 {
				t.Errorf("%s, %s: %v, %v", kind, when, rx, tx)
			}
		}
		none("before the start")
		start(t, p, pool)
		var one [1]*mbuf.Buf
		if p.RxQueue(0).Burst(one[:]) == 1 {
			one[0].Free()
		}
		rx, tx := faulter.Faults()
		if len(rx) != 1 || len(tx) != 1 || tx[0] != nil || (rx[0] != nil) != (kind == "pcap") {
			t.Errorf("%s: %v, %v", kind, rx, tx)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		none("after the stop")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		none("after the end")
	}
}
