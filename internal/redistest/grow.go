package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// AddMaster adds a node without slots. It returns when all running nodes know it and it is in state
// ok, which takes Redis 2 s. The new node is the last of Nodes. Do not call it together with other
// methods of the cluster.
func (c *Cluster) AddMaster() (*Node, error) {
	n, err := launchNode(&c.opt)
	if err != nil {
		return nil, err
	}
	if err := c.join(n); err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: add a node: %w", err), n.Close())
	}
	return n, nil
}

// AddReplica adds a replica of master as AddMaster does, and waits until it is linked.
func (c *Cluster) AddReplica(master *Node) (*Node, error) {
	n, err := c.AddMaster()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	if err := n.Client().ClusterReplicate(ctx, master.ID).Err(); err != nil {
		return nil, fmt.Errorf("redistest: make %s a replica: %w", n.Server.Addr, err)
	}
	return n, c.AwaitStable(clusterTimeout)
}

// join makes a new node and all others meet, and adds it to Nodes.
func (c *Cluster) join(n *Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	var err error
	if n.ID, err = n.Client().ClusterMyID(ctx).Result(); err != nil {
		return err
	}
	c.Nodes = append(c.Nodes, n)
	err = poll(clusterTimeout, c.meetAll)
	if err == nil {
		err = c.AwaitStable(clusterTimeout)
	}
	if err != nil {
		c.Nodes = slices.DeleteFunc(c.Nodes, func(other *Node) bool { return other == n })
	}
	return err
}

// Remove ends a node and makes all others forget it. A master must have no slots and no replicas.
// Do not call it together with other methods of the cluster.
func (c *Cluster) Remove(n *Node) error {
	if err := n.Close(); err != nil {
		return err
	}
	c.Nodes = slices.DeleteFunc(c.Nodes, func(other *Node) bool { return other == n })
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	return each(c.Running(), func(other *Node) error {
		if err := other.Client().ClusterForget(ctx, n.ID).Err(); err != nil {
			return fmt.Errorf("redistest: make %s forget %s: %w", other.Server.Addr, n.Server.Addr, err)
		}
		return nil
	})
}
