package driver_test

import (
	"errors"
	"net"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

func TestRefusedOptions(t *testing.T) {
	for name, opts := range map[string]driver.Options{
		"a short address":          {MAC: net.HardwareAddr{2, 0, 0}},
		"a group address":          {MAC: net.HardwareAddr{1, 0, 0, 0, 0, 1}},
		"a negative reset timeout": {ResetTimeout: -1},
		"a negative answer time":   {ControlTimeout: -1},
	} {
		dev := fakedev.New(fakedev.Config{})
		if _, err := driver.Open(dev, opts); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if !dev.Closed() {
			t.Errorf("%s: the transport was not closed", name)
		}
	}
}

// Wishes that rule each other out are refused, whatever the device has; offloads
// that may be left out are.
func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		opts driver.Options
		cfg  port.Config
		want string
	}{
		"LRO": {driver.Options{NoMergeable: true}, port.Config{RxOffloads: port.RxTCPLRO | port.RxTCPCksum},
			"fake0: Rx offload TCP_LRO and NoMergeable (mrg_rxbuf=0) rule each other out: leave one of them out"},
		"scatter": {driver.Options{NoMergeable: true}, port.Config{RxOffloads: port.RxScatter},
			"fake0: Rx offload SCATTER and NoMergeable (mrg_rxbuf=0) rule each other out: leave one of them out"},
	} {
		r := newRig(t, rigConfig{opts: c.opts})
		c.cfg.Pool = r.pool
		err := r.port.Configure(c.cfg)
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, port.ErrInvalid) || err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
		c.cfg.WhereAvailable = true
		if err := r.port.Configure(c.cfg); err != nil {
			t.Errorf("%s, where available: %v", name, err)
		}
	}
}

// The error of a missing feature is a type with the bits, and says what to do.
func TestFeatureErrorSaysWhatToDo(t *testing.T) {
	r := newRig(t, rigConfig{dev: fakedev.Config{Offered: virtio.Version1}})
	err := r.port.Configure(port.Config{Pool: r.pool, TxOffloads: port.TxTCPTSO})
	want := "fake0: Tx offload TCP_TSO needs CSUM HOST_TSO4 HOST_TSO6, which the device does not offer: do without, or have the host offer it"
	var missing *driver.FeatureError
	if !errors.As(err, &missing) || !errors.Is(err, port.ErrNotSupported) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
