package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"leash/internal/certtest"
	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// testbed is a cluster, and a Leash in front of it.
type testbed struct {
	cluster *redistest.Cluster
	leash   *leashtest.Leash
	tlsAddr string
	ca      string      // the file with the authority of its certificate
	tls     *tls.Config // of a client
}

// The passwords of the users. The default user, which strangers have, has none.
const (
	ownPassword    = "own"
	friendPassword = "friend"
)

// strangersRights are what the default user may do. Scripts are left out, since one without an end
// stops the whole Redis.
var strangersRights = []string{"resetkeys", "~fuzz:*", "resetchannels", "&fuzz:*", "+@all", "-@admin", "-@dangerous",
	"-@scripting"}

func startTestbed(opt options) (b *testbed, err error) {
	b = &testbed{}
	b.cluster, err = redistest.LaunchCluster(redistest.ClusterOptions{FaultProxy: true, NodeTimeout: time.Minute,
		Args: []string{"--proto-max-bulk-len", "1mb"}})
	if err != nil {
		return nil, err
	}
	for _, n := range b.cluster.Nodes {
		for _, user := range [][]string{
			{"own", "on", ">" + ownPassword, "~*", "&*", "+@all"}, {"friend", "on", ">" + friendPassword, "~*", "&*", "+@all"},
			append([]string{"default"}, strangersRights...),
		} {
			command := []any{"ACL", "SETUSER"}
			for _, word := range user {
				command = append(command, word)
			}
			if err := n.Client().Do(context.Background(), command...).Err(); err != nil {
				return nil, errors.Join(err, b.close())
			}
		}
	}
	if err := b.startLeash(opt.dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *testbed) startLeash(dir string) error {
	ca, err := certtest.Make(dir)
	if err != nil {
		return err
	}
	pair, err := ca.Sign(nil)
	if err != nil {
		return err
	}
	b.ca = ca.CA
	b.tls = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}
	binary, err := leashtest.Build(context.Background(), dir, false)
	if err != nil {
		return err
	}
	if b.tlsAddr, err = redistest.ReserveAddr(); err != nil {
		return err
	}
	b.leash, err = leashtest.Start(context.Background(), binary, dir, "--upstream", strings.Join(b.cluster.Addrs(), ","),
		"--upstream-user", "own", "--upstream-password", ownPassword, "--upstream-timeout", "20s", "--watchdog-timeout", "40s",
		"--max-bulk", "1MiB", "--max-args", "1024",
		"--tls-listen", b.tlsAddr, "--tls-cert", pair.Cert, "--tls-key", pair.Key, "--admin", "127.0.0.1:0")
	return err
}

func (b *testbed) close() error {
	if b.leash != nil {
		b.leash.Kill()
	}
	return b.cluster.Close()
}

// friend connects a client that has all rights.
func (b *testbed) friend(secure bool) (*redistest.Client, error) {
	conn, err := b.dial(secure)
	if err != nil {
		return nil, err
	}
	c := redistest.NewClient(conn)
	if got, err := c.Do("AUTH", "friend", friendPassword); err != nil || got != "+OK\r\n" {
		return nil, errors.Join(err, fmt.Errorf("AUTH was answered %q", got), c.Close())
	}
	return c, nil
}

func (b *testbed) dial(secure bool) (net.Conn, error) {
	if secure {
		return tls.Dial("tcp", b.tlsAddr, b.tls)
	}
	return net.Dial("tcp", b.leash.Addr)
}

// keyAt returns a key of a node.
func (b *testbed) keyAt(node int, name string) string {
	for i := 0; ; i++ {
		key := fmt.Sprint(name, ":", i)
		if b.cluster.MasterOf(redistest.Slot(key)) == b.cluster.Nodes[node] {
			return key
		}
	}
}
