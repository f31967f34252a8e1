package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/cpio"

	"vionet/scripts/lab/job"
)

func TestNICArguments(t *testing.T) {
	for _, c := range []struct {
		name  string
		nic   NIC
		iommu bool
		want  []string
	}{
		{
			"hub behind an IOMMU", NIC{Net: Hub(3)}, true,
			[]string{
				"-netdev", "hubport,id=n1,hubid=3",
				"-device", "virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02,disable-legacy=on,iommu_platform=on",
			},
		},
		{
			"options win over defaults",
			NIC{Net: Hub(0), MAC: "52:54:00:58:d7:01", Options: []string{"disable-legacy=off", "disable-modern=on"}}, false,
			[]string{
				"-netdev", "hubport,id=n1,hubid=0",
				"-device", "virtio-net-pci,netdev=n1,mac=52:54:00:58:d7:01,disable-legacy=off,disable-modern=on",
			},
		},
		{
			"tap with two queues", NIC{Net: TapNet("tap0", 2)}, true,
			[]string{
				"-netdev", "tap,id=n1,ifname=tap0,script=no,downscript=no,vhost=off,queues=2",
				"-device", "virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02,disable-legacy=on,iommu_platform=on,mq=on,vectors=6",
			},
		},
		{
			"vhost-user is not behind the IOMMU", NIC{Net: VhostUser("/s", 1)}, true,
			[]string{
				"-chardev", "socket,id=cn1,path=/s", "-netdev", "vhost-user,id=n1,chardev=cn1",
				"-device", "virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02,disable-legacy=on",
			},
		},
		{
			"vhost-user server with queues", NIC{Net: VhostUserServer("/s", 2), Options: []string{"vectors=0"}}, true,
			[]string{
				"-chardev", "socket,id=cn1,path=/s,server=on,wait=off", "-netdev", "vhost-user,id=n1,chardev=cn1,queues=2",
				"-device", "virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02,disable-legacy=on,mq=on,vectors=0",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.nic.args(1, c.iommu)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInitramfsHoldsJobAndFiles(t *testing.T) {
	host := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(host, []byte("machine code"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := job.Job{Args: []string{"/bin/deep/program", "-x"}, Driver: "vfio-pci", Rows: 24, Cols: 80}
	var archive bytes.Buffer
	if err := writeInitramfs(&archive, want, map[string]string{"/bin/deep/program": host}); err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]cpio.Record{}
	for _, r := range records {
		dir := filepath.Dir(r.Name)
		if _, ok := seen[dir]; !ok && dir != "." {
			t.Errorf("%s stands before its directory: the kernel would drop it", r.Name)
		}
		seen[r.Name] = r
	}
	var got job.Job
	if err := json.Unmarshal(content(t, seen["etc/run"]), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	program := seen["bin/deep/program"]
	if text := string(content(t, program)); text != "machine code" || program.Mode&0o111 == 0 {
		t.Errorf("program %q with mode %o", text, program.Mode)
	}
}

// content reads a record to its end.
func content(t *testing.T, r cpio.Record) []byte {
	t.Helper()
	if r.ReaderAt == nil {
		t.Fatal("no such file in the archive")
	}
	text, err := io.ReadAll(io.NewSectionReader(r, 0, int64(r.FileSize)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestModuleFilesKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.ko", "a.ko.xz"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	guest, host := moduleFiles(KernelImage{Modules: dir}, []string{"b", "absent", "a"})
	if diff := cmp.Diff([]string{"/lib/modules/b.ko", "/lib/modules/a.ko.xz"}, guest); diff != "" {
		t.Errorf("guest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "b.ko"), filepath.Join(dir, "a.ko.xz")}, host); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
}

// With KVM nothing is emulated, and each program beside the first has a serial line.
func TestProcessorAndSerialLines(t *testing.T) {
	count := func(argv []string, want ...string) (n int) {
		for i := range argv {
			if i+len(want) <= len(argv) && slices.Equal(argv[i:i+len(want)], want) {
				n++
			}
		}
		return n
	}
	emulated := Config{}.withDefaults().qemu(KernelImage{}, "/d")
	if count(emulated, "-accel", "tcg,thread=multi") != 1 || count(emulated, "-serial") != 1 {
		t.Errorf("emulated: %q", emulated)
	}
	both := Config{KVM: true, Beside: [][]string{{"/a"}, {"/b"}}}.withDefaults().qemu(KernelImage{}, "/d")
	for _, want := range [][]string{
		{"-accel", "kvm"}, {"-cpu", "host"}, {"-machine", "q35,kernel-irqchip=split"},
		{"-chardev", "socket,id=serial1,path=/d/serial1", "-serial", "chardev:serial1"},
		{"-chardev", "socket,id=serial2,path=/d/serial2", "-serial", "chardev:serial2"},
	} {
		if count(both, want...) != 1 {
			t.Errorf("no %q in %q", want, both)
		}
	}
}

// QEMU looks at memory page by page unless its size is a multiple of 256 KiB, which
// is that of all memory but of guests that migrate.
func TestMemory(t *testing.T) {
	for migrates, want := range map[bool]string{false: "256M", true: "262152K"} {
		cfg := Config{Memory: 256, Migrates: migrates, NICs: []NIC{{Net: VhostUser("/s", 1)}}}
		argv := strings.Join(cfg.withDefaults().qemu(KernelImage{}, "/d"), " ")
		if !strings.Contains(argv, " -m "+want+" ") || !strings.Contains(argv, ",share=on,size="+want+" ") {
			t.Errorf("migrates %v: %s, want a size of %s twice", migrates, argv, want)
		}
	}
}
