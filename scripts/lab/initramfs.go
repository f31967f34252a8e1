package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"
	"golang.org/x/sys/unix"

	"vionet/scripts/lab/job"
)

// The modules of Config.Modules, in the order in which they load, by their
// place below lib/modules/RELEASE/kernel.
var (
	// VFIOModules bring vfio-pci. Newer kernels have vfio_virqfd inside
	// vfio; what a kernel package has not is left out.
	VFIOModules = []string{
		"drivers/vfio/vfio",
		"drivers/vfio/vfio_virqfd",
		"drivers/vfio/vfio_iommu_type1",
		"virt/lib/irqbypass",
		"drivers/vfio/pci/vfio-pci-core",
		"drivers/vfio/pci/vfio-pci",
	}
	// UIOModules bring uio_pci_generic.
	UIOModules = []string{
		"drivers/uio/uio",
		"drivers/uio/uio_pci_generic",
	}
	// VirtioModules bring the kernel's own driver, virtio-pci with
	// virtio_net behind it.
	VirtioModules = []string{
		"drivers/virtio/virtio_ring",
		"drivers/virtio/virtio",
		"drivers/virtio/virtio_pci_modern_dev",
		"drivers/virtio/virtio_pci_legacy_dev",
		"drivers/virtio/virtio_pci",
		"net/core/failover",
		"drivers/net/net_failover",
		"drivers/net/virtio_net",
	}
)

// moduleFiles finds modules in an unpacked kernel: guest path and host path,
// in loading order.
func moduleFiles(k KernelImage, names []string) (guest, host []string) {
	for _, name := range names {
		found, _ := filepath.Glob(filepath.Join(k.Modules, name+".ko*"))
		if len(found) == 0 {
			continue
		}
		guest = append(guest, path.Join("/lib/modules", filepath.Base(found[0])))
		host = append(host, found[0])
	}
	return guest, host
}

// writeInitramfs packs the job and files, a map from guest path to host path,
// into an uncompressed newc archive: the kernel reads that fastest.
func writeInitramfs(w io.Writer, j job.Job, files map[string]string) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	// A root file system is writable for everybody unless the archive says
	// otherwise.
	records := []cpio.Record{cpio.Directory(".", 0o755)}
	records = append(records, withDirectories(cpio.StaticFile(job.File, string(text), 0o644))...)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return fmt.Errorf("initramfs: %w", err)
		}
		info := cpio.Info{Name: name, Mode: unix.S_IFREG | 0o755}
		records = append(records, withDirectories(cpio.StaticRecord(content, info))...)
	}
	var archive bytes.Buffer
	out := cpio.NewDedupWriter(cpio.Newc.Writer(&archive))
	if err := cpio.WriteRecords(out, records); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	if err := cpio.WriteTrailer(out); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	_, err = archive.WriteTo(w)
	return err
}

// withDirectories puts the directories above a record in front of it: the
// kernel drops a file whose directory it has not yet seen.
func withDirectories(r cpio.Record) []cpio.Record {
	r.Name = cpio.Normalize(r.Name)
	records := []cpio.Record{r}
	for dir := path.Dir(r.Name); dir != "."; dir = path.Dir(dir) {
		records = slices.Insert(records, 0, cpio.Directory(dir, 0o755))
	}
	return records
}
