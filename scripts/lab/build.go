package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles a main package of the repository, named by import path or by
// directory, into a static binary in dir and gives its path. The compiler's
// cache makes the second build of the same source quick.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	return goTool(ctx, filepath.Join(dir, filepath.Base(pkg)), "build", "-o", "OUT", pkg)
}

// BuildTest compiles the tests of a package into a static binary in dir.
func BuildTest(ctx context.Context, dir, pkg string) (string, error) {
	return goTool(ctx, filepath.Join(dir, filepath.Base(pkg)+".test"), "test", "-c", "-o", "OUT", pkg)
}

// goTool runs the go command in the root of the repository with the flags of
// every build of ours; the argument OUT stands for the file to write.
func goTool(ctx context.Context, out, verb string, args ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	argv := []string{verb, "-trimpath"}
	for _, arg := range args {
		if arg == "OUT" {
			arg = out
		}
		argv = append(argv, arg)
	}
	cmd := exec.CommandContext(ctx, "go", argv...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(cmd); err != nil {
		return "", err
	}
	if _, err := os.Stat(out); err != nil { // a package without tests leaves no binary
		return "", fmt.Errorf("%v made no %s", cmd.Args, filepath.Base(out))
	}
	return out, nil
}
