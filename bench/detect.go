package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"leash/bench/detection"
	"leash/bench/testbed"
)

// inNamespace is the argument with which "bench detection" starts itself in its network namespace.
const inNamespace = "detection-network"

// runDetection is "bench detection": it builds Leash, and the rest happens in a network namespace
// of its own.
func runDetection(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := detection.ParseOptions(args, out)
	if err != nil {
		return err
	}
	b := &testbed.Bed{}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err = b.MakeDir(); err != nil {
		return err
	}
	binary, err := b.LeashBinary(ctx, opt.Leash)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, machine(append([]string{"detection"}, args...)))
	return detection.Enter(ctx, out, append([]string{inNamespace, "--leash", binary}, args...)...)
}

// runInNamespace measures and prints the table.
func runInNamespace(ctx context.Context, args []string, out io.Writer) error {
	opt, err := detection.ParseOptions(args, out)
	if err != nil {
		return err
	}
	table, err := detection.Measure(ctx, opt)
	if err != nil {
		return err
	}
	printCells(out, table)
	return nil
}
