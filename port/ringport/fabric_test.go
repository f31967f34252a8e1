package ringport_test

import (
	"errors"
	"testing"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
)

func open(t *testing.T, f *ringport.Fabric, name string, args map[string]string) port.Port {
	t.Helper()
	p, err := f.Open(name, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// reaches reports whether a packet that from sends is received by to.
func reaches(t *testing.T, from, to port.Port) bool {
	t.Helper()
	pool := newPool(t, 16)
	start(t, from, port.Config{Pool: pool})
	if to != from {
		start(t, to, port.Config{Pool: pool})
	}
	from.TxQueue(0).Burst([]*mbuf.Buf{pool.Get()})
	got := make([]*mbuf.Buf, 1)
	n := to.RxQueue(0).Burst(got)
	free(got[:n])
	to.Stop()
	from.Stop()
	allBack(t, pool)
	return n == 1
}

func TestFabricTiesPeers(t *testing.T) {
	for name, args := range map[string][2]map[string]string{
		"peer on the first": {{"peer": "net_ring1"}, {}},
		"peer on both":      {{"peer": "net_ring1", "size": "8"}, {"peer": "net_ring0"}},
	} {
		var f ringport.Fabric
		a, b := open(t, &f, "net_ring0", args[0]), open(t, &f, "net_ring1", args[1])
		if len(args[0])+len(args[1]) != 0 {
			t.Errorf("%s: arguments left: %v", name, args)
		}
		if !reaches(t, a, b) || !reaches(t, b, a) || reaches(t, a, a) {
			t.Errorf("%s: the ports are not tied to each other", name)
		}
	}
}

func TestFabricLoop(t *testing.T) {
	var f ringport.Fabric
	for name, args := range map[string]map[string]string{"net_ring0": {}, "net_ring1": {"peer": "net_ring1"}, "net_ring2": nil} {
		if p := open(t, &f, name, args); !reaches(t, p, p) {
			t.Errorf("%s does not receive what it sends", name)
		}
	}
}

func TestFabricLeavesUnknownArguments(t *testing.T) {
	var f ringport.Fabric
	args := map[string]string{"size": "64", "iface": "x"}
	p := open(t, &f, "net_ring0", args)
	if len(args) != 1 || args["iface"] != "x" {
		t.Errorf("left: %v", args)
	}
	if got := p.Info().Devargs; got != "iface=x,size=64" {
		t.Errorf("Devargs %q", got)
	}
}

func TestFabricOpensAgain(t *testing.T) {
	var f ringport.Fabric
	a, b := open(t, &f, "a", map[string]string{"peer": "b"}), open(t, &f, "b", nil)
	a.Close()
	again := open(t, &f, "a", map[string]string{"peer": "b"})
	if !reaches(t, again, b) || !reaches(t, b, again) {
		t.Error("the new port did not find its peer")
	}
	again.Close()
	b.Close()
	if p := open(t, &f, "b", nil); !reaches(t, p, p) {
		t.Error("a name whose pair is gone is not free")
	}
}

func TestFabricRefuses(t *testing.T) {
	var f ringport.Fabric
	open(t, &f, "loop", nil)
	open(t, &f, "a", map[string]string{"peer": "b"})
	for _, c := range []struct {
		name string
		args map[string]string
	}{
		{"loop", nil},
		{"a", map[string]string{"peer": "b"}},
		{"b", map[string]string{"peer": "c"}},
		{"c", map[string]string{"peer": "a"}},
		{"c", map[string]string{"peer": "loop"}},
		{"c", map[string]string{"size": "0"}},
		{"c", map[string]string{"size": "many"}},
		{"c", map[string]string{"size": "99999999"}},
	} {
		if p, err := f.Open(c.name, c.args); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%s %v: %v, %v", c.name, c.args, p, err)
		}
	}
}
