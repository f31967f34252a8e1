package driver_test

import (
	"encoding/binary"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

func TestDeviceThatNeedsAResetIsReportedAndRecovers(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{TxOffloads: port.TxTCPCksum}})
	events := make(chan port.Event, 8)
	r.port.Notify(func(e port.Event) { events <- e })
	r.dev.NeedReset()
	for deadline := time.After(5 * time.Second); ; {
		select {
		case e := <-events:
			if e != port.NeedsReset {
				continue
			}
		case <-deadline:
			t.Fatal("nobody was told")
		}
		break
	}
	if err := r.port.Restart(); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.dev.Status(); s.Has(virtio.StatusNeedsReset) || !s.Has(virtio.StatusDriverOK) {
		t.Errorf("status %v after the restart", s)
	}
	if !r.dev.Accepted().Has(virtio.NetCSUM) {
		t.Error("the configuration was lost")
	}
	r.complete(r.send(r.packet(frame(64, 1))))
}

func TestLinkSpeed(t *testing.T) {
	config := func(speed uint32, duplex byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, speed), duplex)
	}
	tests := []struct {
		name   string
		offer  virtio.Features
		opts   driver.Options
		config []byte
		want   port.Link
	}{
		{"the device tells", virtio.NetSpeedDuplex, driver.Options{}, config(25000, 1), port.Link{Up: true, Speed: 25000, FullDuplex: true}},
		{"half duplex", virtio.NetSpeedDuplex, driver.Options{}, config(10, 0), port.Link{Up: true, Speed: 10}},
		{"it does not know", virtio.NetSpeedDuplex, driver.Options{}, config(0xffffffff, 0xff), port.Link{Up: true, Speed: port.SpeedUnknown, FullDuplex: true}},
		{"it does not tell", 0, driver.Options{}, config(10, 0), port.Link{Up: true, Speed: port.SpeedUnknown, FullDuplex: true}},
		{"the caller knows better", virtio.NetSpeedDuplex, driver.Options{Speed: 100000}, config(10, 0), port.Link{Up: true, Speed: 100000, FullDuplex: true}},
	}
	for _, tt := range tests {
		r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | tt.offer}, opts: tt.opts})
		r.dev.SetConfig(virtio.ConfigSpeed, tt.config)
		if got := r.port.Link(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
