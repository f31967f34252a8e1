package vhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/virtio"
)

func TestParsePortDevargs(t *testing.T) {
	for _, tt := range []struct {
		args map[string]string
		want PortConfig
		left map[string]string
		err  string
	}{
		{args: map[string]string{"iface": "/s"}, want: PortConfig{Name: "net_vhost0", Path: "/s", Queues: 1, Packed: true}},
		{
			args: map[string]string{"iface": "/s", "queues": "4", "client": "1", "tso": "1", "packed": "0", "mrg_rxbuf": "0", "event_idx": "0", "mtu": "9000", "dequeue-zero-copy": "2", "iommu-support": "1", "socket-mode": "0660", "x": "y"},
			want: PortConfig{Name: "net_vhost0", Path: "/s", Queues: 4, Client: true, TSO: true, ZeroCopy: true, TrustGuest: true, IOMMU: true, MTU: 9000, SocketMode: 0o660, Mask: virtio.NetMrgRxbuf | virtio.EventIdx},
			left: map[string]string{"x": "y"},
		},
		{args: map[string]string{"iface": "/s", "dequeue-zero-copy": "1"}, want: PortConfig{Name: "net_vhost0", Path: "/s", Queues: 1, Packed: true, ZeroCopy: true}},
		{args: map[string]string{}, err: "iface="},
		{args: map[string]string{"iface": "/s", "queues": "129"}, err: "queues=129"},
		{args: map[string]string{"iface": "/s", "tso": "yes"}, err: "tso=yes"},
		{args: map[string]string{"iface": "/s", "mtu": "67"}, err: "mtu=67"},
		{args: map[string]string{"iface": "/s", "socket-mode": "0"}, err: "socket-mode=0"},
		{args: map[string]string{"iface": "/s", "socket-mode": "0888"}, err: "socket-mode=0888"},
		{args: map[string]string{"iface": "/s", "socket-mode": "1777"}, err: "socket-mode=1777"},
	} {
		given := fmt.Sprint(tt.args)
		got, err := ParsePortDevargs("net_vhost0", tt.args)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want an error about %s", given, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", given, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", given, diff)
		}
		if len(tt.args) != len(tt.left) {
			t.Errorf("%s: %v is left, want %v", given, tt.args, tt.left)
		}
	}
}
