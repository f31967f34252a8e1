package pci

import (
	"testing"

	"vionet/virtio"
)

// loggedAccess logs every access to the registers behind it.
type loggedAccess struct {
	access
	log []regAccess
}

func (a *loggedAccess) window(s Structure) (registers, error) {
	r, err := a.access.window(s)
	return &loggedRegisters{r, a}, err
}

// loggedRegisters is a window of a loggedAccess.
type loggedRegisters struct {
	registers
	access *loggedAccess
}

func (r *loggedRegisters) note(op string, offset, width int, v uint32) {
	r.access.log = append(r.access.log, regAccess{op, offset, width, v})
}

func (r *loggedRegisters) read8(offset int) uint8 {
	v := r.registers.read8(offset)
	r.note("r", offset, 1, uint32(v))
	return v
}

func (r *loggedRegisters) read16(offset int) uint16 {
	v := r.registers.read16(offset)
	r.note("r", offset, 2, uint32(v))
	return v
}

func (r *loggedRegisters) read32(offset int) uint32 {
	v := r.registers.read32(offset)
	r.note("r", offset, 4, v)
	return v
}

func (r *loggedRegisters) write8(offset int, v uint8) {
	r.note("w", offset, 1, uint32(v))
	r.registers.write8(offset, v)
}

func (r *loggedRegisters) write16(offset int, v uint16) {
	r.note("w", offset, 2, uint32(v))
	r.registers.write16(offset, v)
}

func (r *loggedRegisters) write32(offset int, v uint32) {
	r.note("w", offset, 4, v)
	r.registers.write32(offset, v)
}

// TestB01LegacyConfigOffset looks for the MAC address of a legacy device on a
// tree of files, where the configuration starts at 24 while MSI-X is enabled
// and at 20 while it is not.
func TestB01LegacyConfigOffset(t *testing.T) {
	const mac = "\x52\x54\x00\xaa\xbb\xcc"
	withMSIX := func(control uint16) []byte {
		config := testConfig(msixCap())
		config[cfgHeaderSize+msixControl+1] = byte(control >> 8)
		return config
	}
	for _, tt := range []struct {
		name    string
		config  []byte
		base    int // of the configuration
		enabled bool
		later   bool // MSI-X is enabled after the probe
	}{
		{name: "a: no MSI-X capability", config: testConfig(), base: 20},
		{name: "b: capability there, not enabled", config: withMSIX(0), base: 20},
		{name: "c: capability there, enabled", config: withMSIX(msixEnable), base: 24, enabled: true},
		{name: "d: enabled after the probe", config: withMSIX(0), base: 20, later: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := uioTree(t, DriverUIOGeneric, DeviceNetLegacy, tt.config)
			device := uioFiles{k, "0000:00:01.0"}
			device.bar(legacyBAR(tt.base, mac))
			real, err := openUIO(tree, function(t, tree, device.bdf))
			if err != nil {
				t.Fatal(err)
			}
			a := &loggedAccess{access: real}
			tr, err := newTransport(device.bdf, a, Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkMAC(t, tr, mac)
			if tt.later {
				device.enableMSIX(t)
				device.bar(legacyBAR(24, mac)) // the device moves it
				checkMAC(t, tr, mac)
			}
			if err := tr.Reset(openTimeout); err != nil {
				t.Error(err)
			}
			if _, err := tr.SetupQueue(legacyRing(0, 0x10000)); err != nil {
				t.Error(err)
			}
			checkMAC(t, tr, mac)
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			for _, l := range a.log {
				if l.Op == "w" && (l.Offset >= 24 || l.Offset >= 20 && !tt.enabled && !tt.later) {
					t.Errorf("wrote %d bytes at %d", l.Width, l.Offset)
				}
			}
		})
	}
}

func checkMAC(t *testing.T, tr *Transport, want string) {
	t.Helper()
	var mac [6]byte
	if err := tr.ReadConfig(virtio.ConfigMAC, mac[:]); err != nil || string(mac[:]) != want {
		t.Errorf("MAC % x, %v; want % x", mac, err, want)
	}
}

// legacyBAR is the content of BAR 0 of a device with queues of 256 descriptors
// and its address at base.
func legacyBAR(base int, mac string) []byte {
	bar := make([]byte, 32)
	bar[legQueueSize+1] = 1
	copy(bar[base:], mac)
	return bar
}
