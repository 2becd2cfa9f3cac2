package failover

// act adds the requests that an owner, or its Leash for it, may send.
func (w *search) act(s state, i int) {
	o := s.owners[i]
	if o.belief > 0 {
		w.release(s, i)
		w.change(s, i)
	}
	if o.kind != nothing {
		return
	}
	for to := range s.servers {
		next := s
		known := s.settled[home(i)][to]
		switch {
		case o.belief > 0:
			next.owners[i].kind, next.owners[i].to = renew, uint8(to)
			w.reach(next, "owner %d renews at server %d", i, to)
			if v := &s.servers[to]; w.doesMore() && !o.upToDate && v.role == master && v.data.grace > 0 && v.data.marked == v.identity {
				next.owners[i].kind, next.owners[i].identity = restore, v.identity
				w.reach(next, "owner %d restores its hold at server %d", i, to)
			}
		case w.Grace == 0 || known != 0:
			next.owners[i] = owner{kind: acquire, to: uint8(to), identity: known, home: home(i)}
			w.reach(next, "owner %d asks server %d", i, to)
		}
	}
}

// release lets an owner release its hold at a server.
func (w *search) release(s state, i int) {
	for to := range s.servers {
		if !w.reaches(&s, i, to) {
			continue
		}
		next := s
		o, v := &next.owners[i], &next.servers[to]
		if v.data.count != o.count && w.ComparesCount && w.probe(v) > 0 {
			v.data.count = o.count
		}
		o.reachedNew = w.meets(&s, to)
		o.count--
		v.data.count--
		if o.count == 0 {
			o.belief, o.released = 0, o.kind == restore
			if o.released && w.Tombstones {
				v.data.tombstones |= 1 << i
			}
		}
		kept := (o.count == 0) == (v.data.count == 0)
		if v.data.count == 0 {
			tombstones := v.data.tombstones
			v.data.end()
			v.data.tombstones = tombstones
		}
		const format = "owner %d releases at server %d"
		if !kept {
			w.breach(CountsKept, event{format, [3]int{i, to}})
		}
		w.reach(next, format, i, to)
	}
}

// reaches reports whether a server has an owner's hold and may get requests about it. An owner that
// knows the new master sends nothing to the old one.
func (w *search) reaches(s *state, i, to int) bool {
	o, v := &s.owners[i], &s.servers[to]
	knows := o.upToDate || o.reachedNew || o.kind == restore && int(o.to) != to
	return v.active() && v.data.has(o, i) && !(knows && v.role == oldMaster)
}

// meets reports whether that server is the new master while the old one still serves.
func (w *search) meets(s *state, to int) bool {
	return w.doesMore() && s.servers[to].role == master && s.servers[1-to].role == oldMaster
}

// change lets an owner acquire its hold again, move it, or extend it.
func (w *search) change(s state, i int) {
	for to := range s.servers {
		if s.owners[i].kind != nothing || !w.reaches(&s, i, to) {
			continue
		}
		s := s
		s.owners[i].reachedNew = w.meets(&s, to)
		if next := s; w.Counts && next.owners[i].count < 2 {
			next.owners[i].count++
			next.servers[to].data.count++
			w.reach(next, "owner %d acquires again at server %d", i, to)
		}
		if next := s; w.Moves && next.owners[i].moves < 2 {
			o, d := &next.owners[i], &next.servers[to].data
			d.home, d.moves = 1-d.home, d.moves+1
			o.home, o.moves = d.home, d.moves
			w.reach(next, "owner %d moves the hold at server %d", i, to)
		}
		if next := s; w.Extends > 0 && !next.owners[i].lease {
			o, d := &next.owners[i], &next.servers[to].data
			o.lease, o.belief, o.trust, d.lasts = true, w.Extends, w.Extends, w.Extends
			w.reach(next, "owner %d extends the lease at server %d", i, to)
		}
	}
}

// deliver is what may happen to an owner's request. An answer comes at once or never. A late answer
// would only shorten the owner's belief.
func (w *search) deliver(s state, i int) {
	if s.owners[i].kind == nothing {
		return
	}
	next := s
	next.owners[i].kind = nothing
	w.reach(next, "the request of owner %d is lost", i)
	next = s
	o := &next.owners[i]
	if !next.servers[o.to].active() {
		return
	}
	said := w.run(o, i, &next.servers[o.to], s.fresh())
	if o.kind == restore && said == yes && !o.released {
		w.reach(next, "server %d serves owner %d, and a copy of the request is in flight", int(o.to), i)
	}
	unanswered := next
	unanswered.owners[i].kind = nothing
	w.reach(unanswered, "server %d serves owner %d, and the answer is lost", int(o.to), i)
	w.receive(next, i, said)
}

// receive handles an answer.
func (w *search) receive(s state, i int, said answer) {
	o := &s.owners[i]
	kind := o.kind
	o.kind = nothing
	v := &s.servers[o.to]
	o.upToDate = o.upToDate || kind == restore && said == yes && v.role == master
	if kind == restore && said == yes && o.released && v.role == master {
		w.breach(NoneLeft, event{"owner %d has released its hold, and it is restored at server %d", [3]int{i, int(o.to)}})
	}
	switch {
	case said == yes && o.lease && kind == renew && o.belief > 0:
		if left := v.data.lasts; left < o.trust && !(w.DistrustsGrace && w.probe(v) > 0) {
			o.trust = left
		}
		w.reach(s, "owner %d finds its lease at server %d", i, int(o.to))
	case said == yes && o.lease && o.belief > 0:
		w.reach(s, "the lease of owner %d is repaired at server %d", i, int(o.to))
	case kind == acquire && said == yes:
		o.belief = w.TTL - o.age
		w.reach(s, "owner %d gets the lock from server %d", i, int(o.to))
	case said == yes && o.belief > 0:
		o.belief = max(o.belief, w.TTL-o.age)
		w.reach(s, "owner %d is renewed by server %d", i, int(o.to))
	case kind == renew && said == no && o.belief > 0:
		w.handleMissing(s, i)
	case kind == restore && said == no && o.belief > 0:
		w.lose(s, i)
	}
}

// handleMissing is what a Leash does if a server does not have a hold: it checks whether the server
// is in grace.
func (w *search) handleMissing(s state, i int) {
	o := &s.owners[i]
	v := &s.servers[o.to]
	if w.Grace > 0 && w.probe(v) > 0 && w.Restores {
		o.kind, o.age, o.identity = restore, 0, v.identity
		w.reach(s, "the hold of owner %d is to be restored at server %d", i, int(o.to))
		return
	}
	w.lose(s, i)
}
