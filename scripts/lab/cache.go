package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CacheDir is where the lab keeps what it fetched: VIONET_LAB_DIR, or .lab in
// the root of the repository. The directory need not exist.
func CacheDir() (string, error) {
	if dir := os.Getenv("VIONET_LAB_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".lab"), nil
}

// moduleRoot is the root of the repository, at or above the working directory:
// tests run in the directory of their package, which may be of a module inside.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module vionet\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod of vionet at or above the working directory: run from inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// lockDir makes dir and holds it against other processes until unlock is
// called: test binaries of several packages run at the same time.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return func() { lock.Close() }, nil
}
