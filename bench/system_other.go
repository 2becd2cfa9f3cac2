//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

var errLinux = errors.New("bench runs on Linux only")

type poller struct{}

func newPoller() (*poller, error)                         { return nil, errLinux }
func (*poller) close() error                              { return nil }
func (*poller) add(int, int) error                        { return errLinux }
func (*poller) writable(int, int, bool) error             { return errLinux }
func (*poller) wait(time.Duration, func(int) error) error { return errLinux }

func cpuTime(int) (time.Duration, error) { return 0, errLinux }
func childAttr() *syscall.SysProcAttr    { return nil }
