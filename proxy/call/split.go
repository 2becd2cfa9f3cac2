package call

import (
	"slices"

	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Splitting says how to split a command with many keys by slot, for a cluster. MGET
// (https://redis.io/docs/latest/commands/mget/) is an example.
type Splitting struct {
	name  string
	step  int        // arguments per key: 1, or 2 if a value follows each key
	Merge merge.Func // merges the replies of the parts
}

var splittings = map[string]Splitting{
	"mget":   {"MGET", 1, merge.Values},
	"mset":   {"MSET", 2, merge.First},
	"del":    {"DEL", 1, merge.Sum},
	"unlink": {"UNLINK", 1, merge.Sum},
	"exists": {"EXISTS", 1, merge.Sum},
	"touch":  {"TOUCH", 1, merge.Sum},
}

// SplittingOf returns how to split the command with that name. ok is false if it cannot be split.
func SplittingOf(name string) (how Splitting, ok bool) {
	how, ok = splittings[name]
	return how, ok
}

// Complete reports whether each key has its value.
func (how Splitting) Complete(args [][]byte) bool { return (len(args)-1)%how.step == 0 }

// Keys returns the number of keys.
func (how Splitting) Keys(args [][]byte) int { return (len(args) - 1) / how.step }

// SameSlot returns the slot of the first key, and whether all keys have that slot.
func (how Splitting) SameSlot(args [][]byte) (slot slots.Slot, one bool) {
	return SameSlot(args[1:], how.step)
}

// SameSlot returns the slot of the first key, and whether all keys have that slot. Every argument
// that step counts is a key.
func SameSlot(args [][]byte, step int) (slot slots.Slot, one bool) {
	slot = slots.Of(args[0])
	for i := step; i < len(args); i += step {
		if slots.Of(args[i]) != slot {
			return slot, false
		}
	}
	return slot, true
}

// BySlot makes one part for each slot. The keys of a part keep their order.
func (how Splitting) BySlot(args [][]byte) []*Part {
	var parts []*Part
	bySlot := make(map[slots.Slot]*Part)
	for key := range how.Keys(args) {
		slot := slots.Of(args[1+key*how.step])
		p := bySlot[slot]
		if p == nil {
			p = NewPart(nil, slot)
			bySlot[slot] = p
			parts = append(parts, p)
		}
		p.got.Keys = append(p.got.Keys, key)
	}
	for _, p := range parts {
		p.Command = how.request(args, p.got.Keys)
	}
	return parts
}

func (how Splitting) request(args [][]byte, keys []int) []byte {
	size := 32
	for _, key := range keys {
		for i := range how.step {
			size += len(args[1+key*how.step+i]) + 16
		}
	}
	b := resp.AppendArray(make([]byte, 0, size), 1+len(keys)*how.step)
	b = resp.AppendBulk(b, how.name)
	for _, key := range keys {
		for i := range how.step {
			b = resp.AppendBulk(b, args[1+key*how.step+i])
		}
	}
	return b
}

// Slot returns the slot of the part's keys.
func (p *Part) Slot() slots.Slot { return p.slot }

// HasManyKeys reports whether the part of a split command has several keys.
func (p *Part) HasManyKeys() bool { return len(p.got.Keys) > 1 }

// UsesLink reports whether the part goes to a master on the session's link.
func (p *Part) UsesLink() bool { return p.path == nil && !p.replica }

// UseReplica says that the part goes to a replica if replica is set.
func (p *Part) UseReplica(replica bool) { p.replica = replica }

// splitByKey handles TRYAGAIN, which Redis answers when a slot moves and only some of the keys have
// moved. It sends each key by itself. It returns false for a command that cannot be split. It also
// returns false if the order of the session's commands on the slot would change.
func (p *Part) splitByKey() bool {
	q := p.call.queue
	command, args := q.server.lookup(p.Command)
	if command == nil {
		return false
	}
	how, ok := splittings[command.Name]
	if !ok || how.Keys(args) < 2 || !q.suspendUnless(p.laterOnSlotLocked) {
		return false
	}
	p.state = done
	parts := p.replaceByKeys(args, how)
	for _, one := range parts {
		one.send(one.node, false)
	}
	q.resume()
	return true
}

// replaceByKeys replaces the part by one for each of its keys. A call that was sent whole becomes a
// fan-out.
func (p *Part) replaceByKeys(args [][]byte, how Splitting) []*Part {
	c := p.call
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	var keys []int
	if c.fan == nil {
		for key := range how.Keys(args) {
			keys = append(keys, key)
		}
		c.fan = &fanout{call: c, parts: []*Part{p}, left: 1, merge: how.Merge}
	} else {
		keys = p.got.Keys
	}
	parts := make([]*Part, len(keys))
	for i, key := range keys {
		one := NewPart(how.request(args, []int{i}), p.slot)
		one.join(c, p.Prefix)
		one.node, one.path = p.node, p.path
		one.got.Keys = []int{key}
		parts[i] = one
	}
	i := slices.Index(c.fan.parts, p)
	c.fan.parts = slices.Concat(c.fan.parts[:i], parts, c.fan.parts[i+1:])
	c.fan.left += len(parts) - 1
	return parts
}
