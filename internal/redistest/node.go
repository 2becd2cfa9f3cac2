package redistest

import (
	"context"
	"errors"
	"strconv"

	"leash/internal/faultproxy"
)

// Node is one server of a cluster.
type Node struct {
	*Server // its Addr and its Client bypass the proxy

	ID    string            // as in CLUSTER MYID
	Proxy *faultproxy.Proxy // nil without ClusterOptions.FaultProxy

	proxyPort *port
}

// Announced is the address that the cluster announces to clients for this node. It is the proxy's
// address if there is a proxy.
func (n *Node) Announced() string {
	if n.Proxy != nil {
		return n.Proxy.Addr()
	}
	return n.Server.Addr
}

// Close ends the node and its proxy. It may be called more than once.
func (n *Node) Close() error {
	var errs []error
	if n.Server != nil {
		errs = append(errs, n.Server.Close())
	}
	if n.Proxy != nil {
		errs = append(errs, n.Proxy.Close())
		n.proxyPort.release()
	}
	return errors.Join(errs...)
}

// launchNode starts a node that knows no other node.
func launchNode(opt *ClusterOptions) (*Node, error) {
	var n *Node
	err := retryPorts(func() (err error) {
		n, err = launchNodeOnce(opt)
		return err
	})
	return n, err
}

func launchNodeOnce(opt *ClusterOptions) (*Node, error) {
	p, err := claimPort()
	if err != nil {
		return nil, err
	}
	n := &Node{}
	args := nodeArgs(opt)
	if opt.FaultProxy {
		if err := n.startProxy(p.addr()); err != nil {
			p.release()
			return nil, err
		}
		args = append(args,
			"--cluster-announce-port", strconv.Itoa(n.proxyPort.number),
			"--cluster-announce-bus-port", strconv.Itoa(p.number+busOffset))
	}
	n.Server, err = launchAt(p, Options{Args: append(args, opt.Args...), Password: opt.Password, Clock: opt.Clock, TLS: opt.TLS})
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func nodeArgs(opt *ClusterOptions) []string {
	return []string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", strconv.FormatInt(opt.NodeTimeout.Milliseconds(), 10),
		"--cluster-announce-ip", "127.0.0.1",
		// A master whose last slot moves away stays a master, and replicas keep their masters.
		"--cluster-allow-replica-migration", "no",
		// CLUSTER SLOTS omits a replica until it has received something from its master. With this
		// setting it receives a ping every second.
		"--repl-ping-replica-period", "1",
	}
}

// startProxy starts the node's proxy at a port that this package has claimed. No other server takes
// that port while the proxy refuses connections.
func (n *Node) startProxy(target string) error {
	p, err := claimPort()
	if err != nil {
		return err
	}
	proxy, err := faultproxy.Listen(p.addr(), target)
	if err != nil {
		p.release()
		return errors.Join(errPortTaken, err)
	}
	n.Proxy, n.proxyPort = proxy, p
	return nil
}

// meet makes n send a handshake to other, not through its proxy.
func (n *Node) meet(other *Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	return n.Client().Do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port.number, other.port.number+busOffset).Err()
}
