package driver_test

import (
	"errors"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// The features of a port without offloads, on a device that offers them all.
const plainFeatures = virtio.Version1 | virtio.AccessPlatform | virtio.RingPacked | virtio.NotificationData | virtio.OrderPlatform | virtio.RingReset |
	virtio.NetMAC | virtio.NetStatus | virtio.NetMTU | virtio.NetSpeedDuplex | virtio.NetMrgRxbuf | controlFeatures

// The part of them that the control queue brings: filters and coalescing, which
// do nothing until somebody asks, on the running port, and the announcement,
// for which the device asks.
const controlFeatures = virtio.NetCtrlVQ | virtio.NetCtrlRx | virtio.NetCtrlRxExtra | virtio.NetCtrlMACAddr |
	virtio.NetGuestAnnounce | virtio.NetNotfCoal

func TestB05OnlyRequestedFeaturesAreAcknowledged(t *testing.T) {
	const tso = virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetHostECN
	const lro = virtio.NetCtrlGuestOffloads | virtio.NetGuestCSUM | virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestECN |
		virtio.NetGuestUSO4 | virtio.NetGuestUSO6
	tests := []struct {
		name    string
		offered virtio.Features
		cfg     port.Config
		want    virtio.Features
	}{
		{"all 64 bits offered, nothing asked for", ^virtio.Features(0), port.Config{}, plainFeatures},
		{"tx tcp checksum", ^virtio.Features(0), port.Config{TxOffloads: port.TxTCPCksum}, plainFeatures | virtio.NetCSUM},
		{"tx udp checksum", ^virtio.Features(0), port.Config{TxOffloads: port.TxUDPCksum}, plainFeatures | virtio.NetCSUM},
		{"tso brings the checksum", ^virtio.Features(0), port.Config{TxOffloads: port.TxTCPTSO}, plainFeatures | virtio.IndirectDesc | tso},
		{"vlan insertion is the driver's work", ^virtio.Features(0), port.Config{TxOffloads: port.TxVLANInsert}, plainFeatures},
		{"segments go into indirect tables", ^virtio.Features(0), port.Config{TxOffloads: port.TxMultiSegs}, plainFeatures | virtio.IndirectDesc},
		{"uso brings the checksum", ^virtio.Features(0), port.Config{TxOffloads: port.TxUDPTSO}, plainFeatures | virtio.IndirectDesc | virtio.NetHostUSO | virtio.NetCSUM},
		{"rx checksum", ^virtio.Features(0), port.Config{RxOffloads: port.RxTCPCksum}, plainFeatures | virtio.NetGuestCSUM | virtio.NetCtrlGuestOffloads},
		{"vlan filter", ^virtio.Features(0), port.Config{RxOffloads: port.RxVLANFilt}, plainFeatures | virtio.NetCtrlVLAN},
		{"the device's hash", ^virtio.Features(0), port.Config{RxOffloads: port.RxRSSHash}, plainFeatures | virtio.NetHashReport},
		{"rss on one queue", ^virtio.Features(0), port.Config{RSS: &port.RSS{}}, plainFeatures | virtio.NetRSS},
		{"a control queue without a use", virtio.Version1 | virtio.NetCtrlVQ | virtio.NetCtrlVLAN | virtio.NetMQ | virtio.NetCtrlRxExtra, port.Config{}, virtio.Version1},
		{"lro brings the checksum", ^virtio.Features(0), port.Config{RxOffloads: port.RxTCPLRO}, plainFeatures | lro},
		{"vlan strip is the driver's work", ^virtio.Features(0), port.Config{RxOffloads: port.RxVLANStrip}, plainFeatures},
		{"children without their parents", virtio.Version1 | virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetGuestTSO4 | virtio.NetCtrlRx | virtio.NetMQ,
			port.Config{}, virtio.Version1},
		{"no legacy bits beside version 1, no rings that nobody asked for", virtio.Version1 | virtio.AnyLayout | virtio.IndirectDesc | virtio.EventIdx | virtio.InOrder,
			port.Config{}, virtio.Version1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: tt.offered}, port: tt.cfg})
			if got := r.dev.Accepted(); got != tt.want {
				t.Errorf("acknowledged %v\nwant %v", got, tt.want)
			}
		})
	}
}

func TestB05RefusedFeaturesAreAnError(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Refuse: true}})
	err := r.port.Start()
	if !errors.Is(err, driver.ErrFeaturesRefused) {
		t.Fatalf("Start: %v, want ErrFeaturesRefused", err)
	}
	if free := r.pool.Free(); free != r.pool.Size() {
		t.Errorf("%d of %d buffers are free after the failed start", free, r.pool.Size())
	}
}

func TestB05MissingOffloadsAreNamed(t *testing.T) {
	tests := []struct {
		name    string
		offered virtio.Features
		cfg     port.Config
		missing virtio.Features
	}{
		{"no checksum", virtio.Version1, port.Config{TxOffloads: port.TxTCPCksum}, virtio.NetCSUM},
		{"tso without its parent", virtio.Version1 | virtio.NetHostTSO4 | virtio.NetHostTSO6, port.Config{TxOffloads: port.TxTCPTSO}, virtio.NetCSUM},
		{"tso for one family only", virtio.Version1 | virtio.NetCSUM | virtio.NetHostTSO4, port.Config{TxOffloads: port.TxTCPTSO}, virtio.NetHostTSO6},
		{"no rx checksum", virtio.Version1, port.Config{RxOffloads: port.RxUDPCksum}, virtio.NetGuestCSUM},
		{"lro without mergeable buffers", virtio.Version1 | virtio.NetGuestCSUM | virtio.NetGuestTSO4 | virtio.NetGuestTSO6, port.Config{RxOffloads: port.RxTCPLRO}, virtio.NetMrgRxbuf},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigConfig{dev: fakedev.Config{Offered: tt.offered}})
			if info := r.port.Info(); info.TxCapa&tt.cfg.TxOffloads != 0 || info.RxCapa&tt.cfg.RxOffloads != 0 {
				t.Errorf("capabilities Rx %v, Tx %v hold what the device lacks", info.RxCapa, info.TxCapa)
			}
			tt.cfg.Pool = r.pool
			err := r.port.Configure(tt.cfg)
			var fe *driver.FeatureError
			if !errors.As(err, &fe) || fe.Missing != tt.missing {
				t.Fatalf("Configure: %v, want a FeatureError for %v", err, tt.missing)
			}
			if !errors.Is(err, port.ErrNotSupported) {
				t.Errorf("%v does not match port.ErrNotSupported", err)
			}
			// The configuration from before still works.
			if err := r.port.Start(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenegotiationAtEveryStart(t *testing.T) {
	r := newRig(t, rigConfig{})
	for _, tx := range []port.TxOffloads{0, port.TxTCPCksum, port.TxTCPTSO, 0} {
		if err := r.port.Configure(port.Config{Pool: r.pool, TxOffloads: tx}); err != nil {
			t.Fatal(err)
		}
		if err := r.port.Start(); err != nil {
			t.Fatal(err)
		}
		if got, want := r.dev.Accepted().Has(virtio.NetCSUM), tx != 0; got != want {
			t.Errorf("offloads %v: CSUM negotiated %v, want %v", tx, got, want)
		}
		want := "simple"
		if tx != 0 {
			want = "standard"
		}
		if got := r.port.Paths().Tx.Name; got != want {
			t.Errorf("offloads %v: %s Tx path, want %s", tx, got, want)
		}
		if err := r.port.Stop(); err != nil {
			t.Fatal(err)
		}
		if free := r.pool.Free(); free != r.pool.Size() {
			t.Fatalf("after Stop %d of %d buffers are free", free, r.pool.Size())
		}
	}
}

func TestConfigureRefusesWhatCannotWork(t *testing.T) {
	noMerge := virtio.Version1 | virtio.NetMTU
	tests := []struct {
		name    string
		dev     fakedev.Config
		bufSize int
		cfg     port.Config
	}{
		{"more queues than the device has", fakedev.Config{Pairs: 2}, 0, port.Config{RxQueues: 3}},
		{"more descriptors than a ring can have", fakedev.Config{}, 0, port.Config{TxDesc: 32769}},
		{"mtu above the device's", fakedev.Config{}, 0, port.Config{MTU: 1501}},
		{"mtu below the smallest", fakedev.Config{}, 0, port.Config{MTU: 67}},
		{"buffers smaller than a frame", fakedev.Config{Offered: noMerge}, mbuf.Headroom + 1517, port.Config{MTU: 1500}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigConfig{dev: fakedev.Config{}})
			dev, err := driver.Open(fakedev.New(tt.dev), driver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			pool, err := mbuf.NewPool(r.mem, mbuf.PoolConfig{Count: 8, BufSize: tt.bufSize})
			if err != nil {
				t.Fatal(err)
			}
			tt.cfg.Pool = pool
			if err := dev.Configure(tt.cfg); !errors.Is(err, port.ErrInvalid) {
				t.Errorf("Configure: %v, want ErrInvalid", err)
			}
			if err := dev.Start(); !errors.Is(err, port.ErrState) {
				t.Errorf("Start without a configuration: %v, want ErrState", err)
			}
		})
	}
}

func TestB05RefusalLeavesTheDeviceFailed(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Refuse: true}})
	if err := r.port.Start(); err == nil {
		t.Fatal("Start succeeded")
	}
	if !r.dev.SawFailed() {
		t.Error("the device was not told that the driver gave up on it")
	}
}

func TestMTUThatMakesNoSenseIsNotNegotiated(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{MTU: 67}})
	if r.dev.Accepted().Has(virtio.NetMTU) {
		t.Error("an MTU of 67 was accepted")
	}
	if mtu := r.port.Info().MTU; mtu != 1500 {
		t.Errorf("MTU %d, want 1500", mtu)
	}
}

func TestLegacyDeviceWithoutAnyLayoutIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: virtio.NetMAC}})
	err := r.port.Start()
	var fe *driver.FeatureError
	if !errors.As(err, &fe) {
		t.Errorf("Start: %v, want a FeatureError", err)
	}
}
