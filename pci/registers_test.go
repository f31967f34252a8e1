package pci

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/port"
)

// memfd is a file that stands for a BAR: byte i holds i.
func memfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.MemfdCreate("bar", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	b := make([]byte, 3*4096)
	for i := range b {
		b[i] = byte(i)
	}
	if _, err := unix.Pwrite(fd, b, 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

// Both kinds of windows read and write exactly the bytes of a register.
func TestRegisters(t *testing.T) {
	const at = 4096 + 0x20 // not at the start of a page
	for name, window := range map[string]func(fd int) (registers, error){
		"mapped": func(fd int) (registers, error) { return mapRegisters(fd, at, 0x40) },
		"file": func(fd int) (registers, error) {
			return &fileRegisters{fd: fd, offset: at, length: 0x40}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fd := memfd(t)
			r, err := window(fd)
			if err != nil {
				t.Fatal(err)
			}
			if r.size() != 0x40 {
				t.Errorf("size %#x, want 0x40", r.size())
			}
			if v := r.read8(3); v != 0x23 {
				t.Errorf("read8 %#x, want 0x23", v)
			}
			if v := r.read16(6); v != 0x2726 {
				t.Errorf("read16 %#x, want 0x2726", v)
			}
			if v := r.read32(0x3c); v != 0x5f5e5d5c {
				t.Errorf("read32 %#x, want 0x5f5e5d5c", v)
			}
			r.write8(1, 0xa1)
			r.write16(4, 0xb2b1)
			r.write32(8, 0xc4c3c2c1)
			var got [14]byte
			if _, err := unix.Pread(fd, got[:], at-1); err != nil {
				t.Fatal(err)
			}
			want := [14]byte{0x1f, 0x20, 0xa1, 0x22, 0x23, 0xb1, 0xb2, 0x26, 0x27, 0xc1, 0xc2, 0xc3, 0xc4, 0x2c}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bytes (-want +got)\n%s", diff)
			}
			for range 2 {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A kick is one store into the window and costs no memory, also where it takes
// a system call.
func TestKick(t *testing.T) {
	for name, window := range map[string]func(fd int) (registers, error){
		"mapped": func(fd int) (registers, error) { return mapRegisters(fd, 4096, 64) },
		"file":   func(fd int) (registers, error) { return &fileRegisters{fd: fd, offset: 4096, length: 64}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			fd := memfd(t)
			r, err := window(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			for _, tt := range []struct {
				kicker port.Kicker
				want   [6]byte
			}{
				{&notifier{notify: r, offset: 12, index: 0x0103}, [6]byte{11, 3, 1, 14, 15, 16}},
				{&dataNotifier{notify: r, offset: 12, index: 0x0103}, [6]byte{11, 3, 1, 7, 0x80, 16}},
			} {
				if allocs := testing.AllocsPerRun(100, func() { tt.kicker.Kick(0x8007) }); allocs != 0 && !raceEnabled {
					t.Errorf("%v allocations a kick, want none", allocs)
				}
				var got [6]byte
				if _, err := unix.Pread(fd, got[:], 4096+11); err != nil {
					t.Fatal(err)
				}
				if got != tt.want {
					t.Errorf("bytes % x, want % x", got, tt.want)
				}
			}
		})
	}
}

// A device that is gone reads as all ones.
func TestFileRegistersGone(t *testing.T) {
	r := &fileRegisters{fd: -1, length: 16}
	r.write32(0, 1)
	if a, b, c := r.read8(0), r.read16(0), r.read32(0); a != 0xff || b != 0xffff || c != 0xffffffff {
		t.Errorf("read %#x %#x %#x, want all ones", a, b, c)
	}
}

// The compiler makes each access one load or one store of its width.
func TestRegisterInstructions(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("knows the instructions of amd64 only")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to compile with")
	}
	listing, err := exec.Command(goTool, "build", "-gcflags=-S", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v: %s", err, listing)
	}
	// A line holds offset, position and instruction, with tabs in between.
	got := map[string][]string{}
	function := ""
	for line := range strings.Lines(string(listing)) {
		if !strings.HasPrefix(line, "\t") {
			function, _, _ = strings.Cut(strings.TrimPrefix(line, "vionet/pci."), " STEXT")
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) < 2 || slices.Contains([]string{"TEXT", "FUNCDATA", "PCDATA"}, f[1]) || !strings.Contains(f[0], "mmio_unsafe.go") {
			continue
		}
		got[function] = append(got[function], strings.Join(f[1:], " "))
	}
	want := map[string][]string{
		"load8":   {"MOVBLZX (AX), AX", "RET"},
		"load16":  {"MOVWLZX (AX), AX", "RET"},
		"load32":  {"MOVL (AX), AX", "RET"},
		"store8":  {"MOVB BL, (AX)", "RET"},
		"store16": {"MOVW BX, (AX)", "RET"},
		"store32": {"MOVL BX, (AX)", "RET"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instructions (-want +got)\n%s", diff)
	}
}
