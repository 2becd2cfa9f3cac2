package links

import (
	"context"
	"sync/atomic"
)

// identity says whether the server at a node's address is known to be the node. When a server has
// ended, another Redis may get its address, as a pod of Kubernetes does.
type identity struct {
	asking chan struct{} // size 1; held by the goroutine that asks
	// how many connections of the watch have ended, and how many had when the server answered last;
	// -1 for never
	ended, checked atomic.Int64
}

// checkIdentity returns an error if another Redis has the node's address. It asks once for each
// connection of the watch, and blocks until the server has answered or ctx ends. While the server
// cannot tell, the next caller asks again.
func (n *Node) checkIdentity(ctx context.Context) error {
	i := &n.identity
	if n.nodes.hooks.IsMember == nil || i.checked.Load() == i.ended.Load() {
		return nil
	}
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ended := i.ended.Load()
	if i.checked.Load() == ended {
		return nil
	}
	sure, err := n.nodes.hooks.IsMember(ctx, n.Addr)
	if sure {
		i.checked.Store(ended)
	}
	return err
}
