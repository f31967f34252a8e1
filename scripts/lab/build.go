package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles a main package of the repository, named by import path or by
// directory (./cmd/vionet), into a static binary in dir and gives its path. A
// package of a module inside the repository goes by its directory. The compiler's
// cache makes the second build of the same source quick.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	return goTool(ctx, filepath.Join(dir, filepath.Base(pkg)), pkg, "build")
}

// BuildTest compiles the tests of a package into a static binary in dir.
func BuildTest(ctx context.Context, dir, pkg string) (string, error) {
	return goTool(ctx, filepath.Join(dir, filepath.Base(pkg)+".test"), pkg, "test", "-c")
}

// goTool runs the go command, with the flags of every build of ours, on a package.
// It runs in the package's directory where that is given, and so finds the module
// that this belongs to.
func goTool(ctx context.Context, out, pkg string, verb ...string) (string, error) {
	dir, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if filepath.IsLocal(pkg) && strings.HasPrefix(pkg, "./") {
		dir, pkg = filepath.Join(dir, pkg), "."
	}
	cmd := exec.CommandContext(ctx, "go", append(verb, "-trimpath", "-o", out, pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(cmd); err != nil {
		return "", err
	}
	if _, err := os.Stat(out); err != nil { // a package without tests leaves no binary
		return "", fmt.Errorf("%v made no %s", cmd.Args, filepath.Base(out))
	}
	return out, nil
}
