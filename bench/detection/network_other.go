//go:build !linux

package detection

import (
	"context"
	"errors"
	"io"
	"net"
)

var errLinux = errors.New("bench detection runs on Linux only")

// Enter returns an error, because there are no network namespaces here.
func Enter(context.Context, io.Writer, ...string) error { return errLinux }

type space struct{}

func here() (*space, error)                 { return nil, errLinux }
func (*space) ip(*space, ...[]string) error { return errLinux }

type lan struct{}

func newLAN(*space, int) (*lan, error)     { return nil, errLinux }
func (*lan) addr(int) string               { return "" }
func (*lan) dial(string) (net.Conn, error) { return nil, errLinux }
func (*lan) vanish() error                 { return errLinux }
func (*lan) appear() error                 { return errLinux }
func (*lan) cut() error                    { return errLinux }
func (*lan) reconnect() error              { return errLinux }
