package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cloudFlavour ends the release of a cloud kernel.
const cloudFlavour = "-cloud-amd64"

// noIOMMUMakefile builds the module vfio as the kernel's own makefile does,
// with the option that Debian leaves out.
const noIOMMUMakefile = `ccflags-y += -DCONFIG_VFIO_NOIOMMU=1
obj-m := vfio.o
vfio-y := vfio_main.o container.o iova_bitmap.o
`

// NoIOMMUModules are VFIOModules with a vfio that can do without an IOMMU, for
// a Config with Driver "none" and NoIOMMU: functions can be bound only after
// the parameter enable_unsafe_noiommu_mode was set, which is left to the
// program. Debian's kernels have no such module, so the first call builds it
// from Debian's source (150 MB to fetch, then removed) with gcc and make; later
// calls find it in CacheDir.
func NoIOMMUModules(ctx context.Context) ([]string, error) {
	kernel, err := Kernel(ctx, "")
	if err != nil {
		return nil, err
	}
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	release := filepath.Base(filepath.Dir(kernel.Modules))
	module := filepath.Join(dir, "noiommu", release, "vfio.ko")
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("kernel cache: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(module); errors.Is(err, os.ErrNotExist) {
		if err := buildNoIOMMU(ctx, dir, release, module); err != nil {
			return nil, fmt.Errorf("build vfio for a machine without an IOMMU: %w", err)
		}
	}
	// Modules are named by their place below the kernel's.
	name, err := filepath.Rel(kernel.Modules, strings.TrimSuffix(module, ".ko"))
	if err != nil {
		return nil, err
	}
	modules := slices.Clone(VFIOModules)
	modules[0] = name
	return modules, nil
}

// buildNoIOMMU makes the module for a release, such as 6.1.0-57-cloud-amd64.
func buildNoIOMMU(ctx context.Context, dir, release, module string) error {
	abi, isCloud := strings.CutSuffix(release, cloudFlavour)
	version := strings.SplitN(release, ".", 3)
	if !isCloud || len(version) < 3 {
		return fmt.Errorf("%q is no release of a cloud kernel", release)
	}
	work, err := os.MkdirTemp(dir, "noiommu-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := noIOMMUBuild{
		root:   filepath.Join(work, "root"),
		source: filepath.Join(work, "source"),
		abi:    abi,
		series: version[0] + "." + version[1],
	}
	if err := b.fetch(ctx, work); err != nil {
		return err
	}
	if err := b.relocateHeaders(); err != nil {
		return err
	}
	built, err := b.compile(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
		return err
	}
	return os.Rename(built, module)
}

// noIOMMUBuild is where the pieces of a build are.
type noIOMMUBuild struct {
	root, source string // unpacked packages, and the source of drivers/vfio
	abi          string // 6.1.0-57
	series       string // 6.1
}

// headers and common are the two halves of the kernel's headers.
func (b noIOMMUBuild) headers() string {
	return filepath.Join(b.root, "usr/src", "linux-headers-"+b.abi+cloudFlavour)
}
func (b noIOMMUBuild) common() string { return filepath.Join(b.root, b.installedCommon()) }
func (b noIOMMUBuild) installedCommon() string {
	return "/usr/src/linux-headers-" + b.abi + "-common"
}

// fetch downloads and unpacks the packages in work.
func (b noIOMMUBuild) fetch(ctx context.Context, work string) error {
	download := []string{
		"apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download",
		"linux-source-" + b.series, "linux-kbuild-" + b.series,
		"linux-headers-" + b.abi + cloudFlavour, "linux-headers-" + b.abi + "-common",
	}
	_, err := runIn(ctx, work, download...)
	if err != nil { // apt's indexes may be absent or too old
		if _, err := runIn(ctx, "", "apt-get", "-qq", "update"); err != nil {
			return err
		}
		_, err = runIn(ctx, work, download...)
	}
	if err != nil {
		return fmt.Errorf("%w (Debian may have a newer kernel: remove the cached one, it will be fetched again)", err)
	}
	debs, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	for _, deb := range debs {
		if _, err := runIn(ctx, work, "dpkg-deb", "-x", deb, b.root); err != nil {
			return err
		}
	}
	if err := os.Mkdir(b.source, 0o755); err != nil {
		return err
	}
	_, err = runIn(ctx, b.source, "tar", "-xJf", filepath.Join(b.root, "usr/src", "linux-source-"+b.series+".tar.xz"),
		"--strip-components=3", "--wildcards", "linux-source-"+b.series+"/drivers/vfio/*")
	return err
}

// relocateHeaders makes the headers, which expect to be installed, work from
// where they were unpacked.
func (b noIOMMUBuild) relocateHeaders() error {
	makefile := filepath.Join(b.headers(), "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return err
	}
	moved := strings.ReplaceAll(string(text), b.installedCommon(), b.common())
	if err := os.WriteFile(makefile, []byte(moved), 0o644); err != nil {
		return err
	}
	for _, dir := range []string{b.headers(), b.common()} {
		if err := b.relocateLinks(dir); err != nil {
			return err
		}
	}
	return nil
}

// relocateLinks points the links of a directory at the unpacked kbuild.
func (b noIOMMUBuild) relocateLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		link := filepath.Join(dir, e.Name())
		target := filepath.Join(b.root, "usr/lib", "linux-kbuild-"+b.series, e.Name())
		if err := os.Remove(link); err != nil {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// compile makes the module and gives its path.
func (b noIOMMUBuild) compile(ctx context.Context) (string, error) {
	if err := os.WriteFile(filepath.Join(b.source, "Makefile"), []byte(noIOMMUMakefile), 0o644); err != nil {
		return "", err
	}
	if _, err := runIn(ctx, b.source, "make", "-s", "-C", b.headers(), "M="+b.source, "modules"); err != nil {
		return "", err
	}
	built := filepath.Join(b.source, "vfio.ko")
	_, err := runIn(ctx, b.source, "strip", "--strip-debug", built)
	return built, err
}
