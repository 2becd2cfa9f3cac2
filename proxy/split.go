package proxy

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// splitting says how to split a command with many keys by slot, for a cluster. MGET
// (https://redis.io/docs/latest/commands/mget/) is an example.
type splitting struct {
	name  string
	step  int // arguments per key: 1, or 2 if a value follows each key
	merge merge.Func
}

var splittings = map[string]splitting{
	"mget":   {"MGET", 1, merge.Values},
	"mset":   {"MSET", 2, merge.First},
	"del":    {"DEL", 1, merge.Sum},
	"unlink": {"UNLINK", 1, merge.Sum},
	"exists": {"EXISTS", 1, merge.Sum},
	"touch":  {"TOUCH", 1, merge.Sum},
}

// split runs a command of splittings. It sends the command whole if all keys have one slot or if
// there is no cluster. Otherwise it splits the command by slot.
func (s *session) split(c *command.Command, cmd resp.Command) bool {
	how := splittings[c.Name]
	if !c.ArityOK(cmd.Args) || (len(cmd.Args)-1)%how.step != 0 {
		return s.wrongArity(c)
	}
	if !s.adoptTopology() {
		return false
	}
	slot, one := sameSlot(cmd.Args[1:], how.step)
	if one || !s.topology.Cluster() {
		return s.relayKeys(cmd, slot, len(cmd.Args)-1 > how.step)
	}
	if !s.admitCall(len(cmd.Raw)) {
		return false
	}
	parts := how.bySlot(cmd.Args)
	to := make([]*upstream.Node, len(parts))
	resharding := false
	for i, p := range parts {
		resharding = resharding || len(p.got.Keys) > 1 && s.server.resharding.is()
		link, ok := s.linkOf(p.slot)
		if link == nil && ok {
			continue
		}
		if !ok || !s.awaitLink(link) {
			return false
		}
		to[i], p.replica = link.Node(), link.ReadsReplica()
	}
	ok := s.fanOut(parts, to, len(cmd.Raw), how.merge)
	if ok && resharding {
		return s.barrier() // a part may have to be split by key
	}
	return ok
}

// sameSlot returns the slot of the first key, and whether all keys have that slot.
func sameSlot(args [][]byte, step int) (slot int, one bool) {
	slot = int(upstream.Slot(args[0]))
	for i := step; i < len(args); i += step {
		if int(upstream.Slot(args[i])) != slot {
			return slot, false
		}
	}
	return slot, true
}

// bySlot makes one part for each slot. The keys of a part keep their order.
func (how splitting) bySlot(args [][]byte) []*part {
	var parts []*part
	bySlot := make(map[int]*part)
	for key := 0; 1+key*how.step < len(args); key++ {
		slot := int(upstream.Slot(args[1+key*how.step]))
		p := bySlot[slot]
		if p == nil {
			p = &part{slot: slot, got: new(merge.Reply)}
			bySlot[slot] = p
			parts = append(parts, p)
		}
		p.got.Keys = append(p.got.Keys, key)
	}
	for _, p := range parts {
		p.Request = how.request(args, p.got.Keys)
	}
	return parts
}

// request writes the command with the given keys.
func (how splitting) request(args [][]byte, keys []int) []byte {
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

// splitByKey handles TRYAGAIN, which Redis answers when a slot moves and only some of the keys have
// moved. It sends each key by itself. It returns false for a command that cannot be split. It also
// returns false if the order of the session's commands on the slot would change.
func (p *part) splitByKey() bool {
	s := p.call.session
	args, how, ok := p.splittable()
	if !ok {
		return false
	}
	s.mu.Lock()
	if s.laterOnSlotLocked(p) {
		s.mu.Unlock()
		return false
	}
	s.calls.held++
	c := p.call
	if c.fan == nil {
		p = c.becomeFanoutLocked(p, (len(args)-1)/how.step, how.merge)
	}
	parts := p.divide(args, how)
	c.fan.replaceLocked(p, parts)
	s.mu.Unlock()
	for _, one := range parts {
		one.send(one.node, false)
	}
	s.release()
	return true
}

// splittable parses the part's request and returns how to split it.
func (p *part) splittable() (args [][]byte, how splitting, ok bool) {
	cmd, ok := resp.ParseRequest(p.Request)
	if !ok {
		return nil, how, false
	}
	c := p.call.session.server.commands.Lookup(cmd.Args)
	if c == nil {
		return nil, how, false
	}
	how, ok = splittings[c.Name]
	return cmd.Args, how, ok && len(cmd.Args)-1 > how.step
}

// divide makes one part for each key of p.
func (p *part) divide(args [][]byte, how splitting) []*part {
	parts := make([]*part, len(p.got.Keys))
	for i, key := range p.got.Keys {
		one := &part{call: p.call, slot: p.slot, node: p.node, got: &merge.Reply{Keys: []int{key}}}
		one.Sink = one
		one.Request, one.Prefix = how.request(args, []int{i}), p.Prefix
		parts[i] = one
	}
	return parts
}

// becomeFanoutLocked turns a call that was sent whole into a fan-out with one part that has all
// keys.
func (c *call) becomeFanoutLocked(p *part, keys int, m merge.Func) *part {
	whole := &part{Call: p.Call, call: c, slot: p.slot, node: p.node, got: new(merge.Reply)}
	for key := range keys {
		whole.got.Keys = append(whole.got.Keys, key)
	}
	c.fan = &fanout{call: c, parts: []*part{whole}, left: 1, merge: m}
	return whole
}

// replaceLocked replaces one part by several.
func (f *fanout) replaceLocked(p *part, by []*part) {
	parts := make([]*part, 0, len(f.parts)+len(by)-1)
	for _, old := range f.parts {
		if old == p {
			parts = append(parts, by...)
		} else {
			parts = append(parts, old)
		}
	}
	f.parts = parts
	f.left += len(by) - 1
}

// release lets a session continue that was held back.
func (s *session) release() {
	s.mu.Lock()
	s.calls.held--
	s.wakeLocked()
	s.mu.Unlock()
}
