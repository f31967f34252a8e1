package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kernelMeta is the package that always depends on the newest kernel.
const kernelMeta = "linux-image-cloud-amd64"

// fetchTimeout bounds a run of apt-get: an index update is the longest.
const fetchTimeout = 3 * time.Minute

// KernelImage is an unpacked kernel package.
type KernelImage struct {
	Vmlinuz string // the boot image
	Modules string // lib/modules/RELEASE/kernel
}

// Kernel gives Debian's newest cloud kernel out of dir, or out of CacheDir
// when dir is empty. The first call fetches the package by name and unpacks it
// (27 MB to fetch, 110 MB on disk); later calls, also of other processes, find
// it there. Nothing is installed. To take a newer kernel, remove dir/kernel.
func Kernel(ctx context.Context, dir string) (KernelImage, error) {
	if dir == "" {
		var err error
		if dir, err = CacheDir(); err != nil {
			return KernelImage{}, err
		}
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return KernelImage{}, fmt.Errorf("kernel cache: %w", err)
	}
	defer unlock()

	root := filepath.Join(dir, "kernel")
	if _, err := os.Stat(root); errors.Is(err, os.ErrNotExist) {
		if err := fetchKernel(ctx, dir, root); err != nil {
			return KernelImage{}, fmt.Errorf("fetch a guest kernel: %w", err)
		}
	}
	return kernelIn(root)
}

// kernelIn finds the image and the modules under an unpacked package.
func kernelIn(root string) (KernelImage, error) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	modules, _ := filepath.Glob(filepath.Join(root, "lib", "modules", "*", "kernel"))
	if len(images) != 1 || len(modules) != 1 {
		return KernelImage{}, fmt.Errorf("%s holds no single kernel: remove it, it will be fetched again", root)
	}
	return KernelImage{Vmlinuz: images[0], Modules: modules[0]}, nil
}

// fetchKernel downloads and unpacks next to root, then renames: a fetch that
// was interrupted leaves no half of a kernel.
func fetchKernel(ctx context.Context, dir, root string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("no apt-get here: the lab takes its kernel from Debian's packages")
	}
	work, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	deb, err := downloadKernel(ctx, work)
	if err != nil { // apt's indexes may be absent or too old
		if _, err := runIn(ctx, "", "apt-get", "-qq", "update"); err != nil {
			return fmt.Errorf("%w (as root, apt-get update may help)", err)
		}
		deb, err = downloadKernel(ctx, work)
	}
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "root")
	if _, err := runIn(ctx, work, "dpkg-deb", "-x", deb, unpacked); err != nil {
		return err
	}
	return os.Rename(unpacked, root)
}

// downloadKernel puts the package file into dir and gives its path.
func downloadKernel(ctx context.Context, dir string) (string, error) {
	name, err := newestKernel(ctx)
	if err != nil {
		return "", err
	}
	if _, err := runIn(ctx, dir, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name); err != nil {
		return "", err
	}
	debs, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(debs) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d packages, not one", name, len(debs))
	}
	return debs[0], nil
}

// newestKernel asks apt which package kernelMeta stands for.
func newestKernel(ctx context.Context) (string, error) {
	out, err := runIn(ctx, "", "apt-cache", "depends", kernelMeta)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); found {
			return name, nil
		}
	}
	return "", fmt.Errorf("apt knows no %s: Debian's package sources are needed", kernelMeta)
}

// runIn runs a program to its end and gives its standard output; what it
// wrote to standard error becomes part of the error.
func runIn(ctx context.Context, dir string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	return output(cmd)
}

// output is cmd.Output with an error that says what was run and what it said.
func output(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return string(out), nil
}
