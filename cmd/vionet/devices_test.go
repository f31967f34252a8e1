package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vionet/driver"
)

func TestDriverOptions(t *testing.T) {
	tests := []struct {
		args string
		want driver.Options
		left map[string]string
	}{
		{"", driver.Options{}, map[string]string{}},
		{"mrg_rxbuf=0,simple_tx_support=0", driver.Options{NoMergeable: true, NoSimpleTx: true}, map[string]string{}},
		{"mrg_rxbuf=1,simple_tx_support=1", driver.Options{}, map[string]string{}},
		{"clear_num_buffers=0", driver.Options{KeepNumBuffers: true}, map[string]string{}},
		{"event_idx=1,speed=25000", driver.Options{EventIdx: true, Speed: 25000}, map[string]string{}},
		{"in_order=1,path=/x", driver.Options{InOrder: true}, map[string]string{"in_order": "1", "path": "/x"}},
	}
	for _, tt := range tests {
		d := devices{log: slog.New(slog.DiscardHandler)}
		got, left, err := d.driverOptions(device{Name: "net_virtio_user0", Args: tt.args})
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(driver.Options{}, "Devargs", "Logger")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
		if diff := cmp.Diff(tt.left, left); diff != "" {
			t.Errorf("%q leaves (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestB25DeviceArgumentsAreChecked(t *testing.T) {
	for args, part := range map[string]string{
		"speed=0": "speed", "speed=-1": "speed", "speed=400001": "speed", "speed=18446744073709551616": "speed",
		"speed=1x": "speed", "speed=": "speed", "speed=0x10": "speed",
		"mrg_rxbuf=2": "mrg_rxbuf", "simple_tx_support=on": "simple_tx_support", "event_idx=": "event_idx", "clear_num_buffers=no": "clear_num_buffers",
		"speed": "speed", "=1": "=1", "speed=10,speed=10": "speed",
	} {
		d := devices{log: slog.New(slog.DiscardHandler)}
		if _, _, err := d.driverOptions(device{Name: "0000:00:01.0", Args: args}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q in an error", args, err, part)
		}
	}
}
