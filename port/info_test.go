package port

import (
	"net"
	"testing"
)

func TestInfoPrintsItself(t *testing.T) {
	null, err := NewNull(NullConfig{Devargs: "size=64"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		info Info
		want string
	}{
		"a port without a device": {null.Info(), `net_null0 (net_null) ` + null.Info().MAC.String() + `, MTU 1500
  arguments   size=64
  receive     1 queue, null: there is no device
  transmit    1 queue, null: there is no device`},
		"a device that was not started": {
			Info{Name: "0000:00:04.0", Driver: "net_virtio", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, MTU: 9000,
				RxQueues: 2, TxQueues: 2, RxDesc: 256, TxDesc: 128, Offered: []string{"CSUM", "MAC"}, IOVA: "ranges"},
			`0000:00:04.0 (net_virtio) 02:00:00:00:00:01, MTU 9000
  offered     CSUM MAC
  negotiated  nothing yet
  receive     2 queues of 256 descriptors
  transmit    2 queues of 128 descriptors
  addresses   ranges`,
		},
	} {
		if got := c.info.String(); got != c.want {
			t.Errorf("%s prints itself as\n%s\nwant\n%s", name, got, c.want)
		}
	}
	p := Path{Name: "standard", Reason: "because", Unlock: "do this"}
	if got := p.String(); got != "standard: because (simpler: do this)" {
		t.Errorf("a path prints itself as %q", got)
	}
}
