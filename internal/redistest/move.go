package redistest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	moveTimeout    = 10 * time.Second // of each step of a move
	keysPerMigrate = 100
)

// Move is a slot migration from one master to another, in the steps of redis-cli. A test can look
// at the cluster between the steps. For a key that is no longer at From, clients get ASK there. To
// serves it to clients that send ASKING. A command on several keys that are not all on one node
// gets TRYAGAIN. A Move is not safe for concurrent use.
type Move struct {
	Slot     int
	From, To *Node

	cluster *Cluster
}

// BeginMove marks slot as importing at node to and as migrating at its master. No key moves yet.
func (c *Cluster) BeginMove(slot int, to *Node) (*Move, error) {
	m := &Move{Slot: slot, From: c.MasterOf(slot), To: to, cluster: c}
	if m.From == nil || m.From == to {
		return nil, fmt.Errorf("redistest: move slot %d to %s: it has no other master", slot, to.Server.Addr)
	}
	if err := m.set(to, "IMPORTING", m.From.ID); err != nil {
		return nil, err
	}
	return m, m.set(m.From, "MIGRATING", to.ID)
}

// set runs CLUSTER SETSLOT at a node.
func (m *Move) set(at *Node, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), moveTimeout)
	defer cancel()
	command := append([]any{"CLUSTER", "SETSLOT", m.Slot}, args...)
	if err := at.Client().Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("redistest: %v at %s: %w", command, at.Server.Addr, err)
	}
	return nil
}

// MoveKeys moves n of the slot's keys in any order, or all if fewer are left or n < 0. It returns
// how many it has moved.
func (m *Move) MoveKeys(n int) (int, error) { return m.migrate(m.From, m.To, n) }

// MoveKey moves these keys of the slot. It ignores keys that do not exist.
func (m *Move) MoveKey(keys ...string) error { return m.migrateKeys(m.From, m.To, keys) }

// migrate moves n of the slot's keys, all if n < 0, and returns how many there were to move.
func (m *Move) migrate(from, to *Node, n int) (int, error) {
	moved := 0
	for n < 0 || moved < n {
		batch := keysPerMigrate
		if n >= 0 {
			batch = min(batch, n-moved)
		}
		keys, err := m.keys(from, batch)
		if err != nil || len(keys) == 0 {
			return moved, err
		}
		if err := m.migrateKeys(from, to, keys); err != nil {
			return moved, err
		}
		moved += len(keys)
	}
	return moved, nil
}

// keys returns keys of the slot that a node has, at most n.
func (m *Move) keys(at *Node, n int) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), moveTimeout)
	defer cancel()
	keys, err := at.Client().ClusterGetKeysInSlot(ctx, m.Slot, n).Result()
	if err != nil {
		return nil, fmt.Errorf("redistest: keys of slot %d at %s: %w", m.Slot, at.Server.Addr, err)
	}
	return keys, nil
}

func (m *Move) migrateKeys(from, to *Node, keys []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), moveTimeout)
	defer cancel()
	command := []any{"MIGRATE", "127.0.0.1", to.port.number, "", 0, moveTimeout.Milliseconds()}
	if password := m.cluster.opt.Password; password != "" {
		command = append(command, "AUTH", password)
	}
	command = append(command, "KEYS")
	for _, key := range keys {
		command = append(command, key)
	}
	if err := from.Client().Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("redistest: migrate %d keys of slot %d: %w", len(keys), m.Slot, err)
	}
	return nil
}

// Finish makes To the master of the slot. It tells the two nodes and the other running masters.
// Replicas learn it from the other nodes soon after, and AwaitStable waits for that. Finish returns
// an error if From still has keys, because it would delete them. No new key can appear there, since
// a migrating slot accepts none.
func (m *Move) Finish() error {
	left, err := m.keys(m.From, 1)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("redistest: finish the move of slot %d: keys are left at %s", m.Slot, m.From.Server.Addr)
	}
	told := []*Node{m.To, m.From} // in this order, so that the slot always has a master
	for _, n := range m.cluster.Masters() {
		if n != m.To && n != m.From {
			told = append(told, n)
		}
	}
	for _, n := range told {
		if err := m.set(n, "NODE", m.To.ID); err != nil {
			return err
		}
	}
	return nil
}

// Abort ends the migration. It moves the keys back, and the slot stays with its old master.
func (m *Move) Abort() error {
	if err := m.set(m.From, "STABLE"); err != nil { // a migrating slot accepts no keys
		return err
	}
	if _, err := m.migrate(m.To, m.From, -1); err != nil {
		return err
	}
	return m.set(m.To, "STABLE")
}

// MoveSlot moves a slot with all its keys to a master.
func (c *Cluster) MoveSlot(slot int, to *Node) error {
	m, err := c.BeginMove(slot, to)
	if err != nil {
		return err
	}
	if _, err := m.MoveKeys(-1); err != nil {
		return err
	}
	return m.Finish()
}

// MoveAtOnce moves a slot with all its keys in one step, as Valkey 9 and Redis 8.4 can. Other
// servers answer an error.
func (c *Cluster) MoveAtOnce(slot int, to *Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*moveTimeout)
	defer cancel()
	from, cancelMove := c.MasterOf(slot), []any{"CLUSTER", "CANCELSLOTMIGRATIONS", "ALL"}
	if from == nil || from == to {
		return fmt.Errorf("redistest: move slot %d to %s: it has no other master", slot, to.Server.Addr)
	}
	if err := from.Client().Do(ctx, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to.ID).Err(); err != nil {
		from, cancelMove = to, []any{"CLUSTER", "MIGRATION", "CANCEL", "ALL"} // Redis is asked at the other end
		if of := to.Client().Do(ctx, "CLUSTER", "MIGRATION", "IMPORT", slot, slot).Err(); of != nil {
			return fmt.Errorf("redistest: move slot %d to %s: %w, %w", slot, to.Server.Addr, err, of)
		}
	}
	err := poll(moveTimeout, func() error {
		if c.MasterOf(slot) != to {
			return fmt.Errorf("redistest: slot %d has not moved to %s", slot, to.Server.Addr)
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, from.Client().Do(ctx, cancelMove...).Err())
	}
	return err
}

// MoveSlots moves n slots of one master to another, the lowest first, one after the other.
func (c *Cluster) MoveSlots(from, to *Node, n int) error {
	v, err := from.view()
	if err != nil {
		return err
	}
	for _, r := range v.self().slots {
		for slot := r.first; slot <= r.last && n > 0; slot++ {
			if err := c.MoveSlot(slot, to); err != nil {
				return err
			}
			n--
		}
	}
	if n > 0 {
		return fmt.Errorf("redistest: %s had %d slots too few", from.Server.Addr, n)
	}
	return nil
}
