package leashtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildOptions say how to compile Leash. The zero value is the build that users get.
type BuildOptions struct {
	Race bool // under the race detector
	// a file for go build's -overlay flag, with sources to replace; "" for none
	Overlay string
}

// Build compiles Leash into dir and returns the binary's path. With race it is built under the race
// detector.
func Build(ctx context.Context, dir string, race bool) (binary string, err error) {
	return BuildWith(ctx, dir, BuildOptions{Race: race})
}

// BuildWith is Build with options.
func BuildWith(ctx context.Context, dir string, opt BuildOptions) (binary string, err error) {
	binary = filepath.Join(dir, "leash")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", binary}
	cgo := "CGO_ENABLED=0"
	if opt.Race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	if opt.Overlay != "" {
		args = append(args, "-overlay", opt.Overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "leash")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build leash: %w\n%s", err, out)
	}
	return binary, nil
}
