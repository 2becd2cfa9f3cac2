package failover

// act is what an owner, or its Leash for it, may begin.
func (w *search) act(s state, i int) {
	o := s.owners[i]
	if o.belief > 0 {
		w.leave(s, i)
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
			if v := &s.servers[to]; w.asks() && !o.told && v.role == master && v.data.grace > 0 && v.data.marked == v.identity {
				next.owners[i].kind, next.owners[i].identity = reassert, v.identity
				w.reach(next, "owner %d tells server %d of its hold", i, to)
			}
		case w.Grace == 0 || known != 0:
			next.owners[i] = owner{kind: acquire, to: uint8(to), identity: known, home: home(i)}
			w.reach(next, "owner %d asks server %d", i, to)
		}
	}
}

// leave is the end of a hold at its owner's wish, which a server hears of.
func (w *search) leave(s state, i int) {
	for to := range s.servers {
		if !w.reaches(&s, i, to) {
			continue
		}
		next := s
		o, v := &next.owners[i], &next.servers[to]
		if v.data.count != o.count && w.Compares && w.look(v) > 0 {
			v.data.count = o.count
		}
		o.met = w.meets(&s, to)
		o.count--
		v.data.count--
		if o.count == 0 {
			o.belief, o.left = 0, o.kind == reassert
			if o.left && w.Buries {
				v.data.graves |= 1 << i
			}
		}
		kept := (o.count == 0) == (v.data.count == 0)
		if v.data.count == 0 {
			graves := v.data.graves
			v.data.end()
			v.data.graves = graves
		}
		const format = "owner %d releases at server %d"
		if !kept {
			w.breach(CountsKept, event{format, [3]int{i, to}})
		}
		w.reach(next, format, i, to)
	}
}

// reaches reports whether a server has an owner's hold, and may be asked about it: not the old
// master by who knows the new one.
func (w *search) reaches(s *state, i, to int) bool {
	o, v := &s.owners[i], &s.servers[to]
	knows := o.told || o.met || o.kind == reassert && int(o.to) != to
	return v.active() && v.data.has(o, i) && !(knows && v.role == ghost)
}

// meets reports whether an answer of that server is one of the new master, beside an old one.
func (w *search) meets(s *state, to int) bool {
	return w.asks() && s.servers[to].role == master && s.servers[1-to].role == ghost
}

// change is what else an owner may do with a hold: enter it again, move it, or set its time.
func (w *search) change(s state, i int) {
	for to := range s.servers {
		if s.owners[i].kind != nothing || !w.reaches(&s, i, to) {
			continue
		}
		s := s
		s.owners[i].met = w.meets(&s, to)
		if next := s; w.Counts && next.owners[i].count < 2 {
			next.owners[i].count++
			next.servers[to].data.count++
			w.reach(next, "owner %d enters again at server %d", i, to)
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

// travel is what may become of an owner's request. An answer comes at once or never: one that is
// late changes nothing but that its owner believes in it for less long.
func (w *search) travel(s state, i int) {
	if s.owners[i].kind == nothing {
		return
	}
	next := s
	next.owners[i].kind = nothing
	w.reach(next, "what owner %d asked is lost", i)
	next = s
	o := &next.owners[i]
	if !next.servers[o.to].active() {
		return
	}
	said := w.run(o, i, &next.servers[o.to], s.fresh())
	if o.kind == reassert && said == yes && !o.left {
		w.reach(next, "server %d serves owner %d, whose request is still about", int(o.to), i)
	}
	unheard := next
	unheard.owners[i].kind = nothing
	w.reach(unheard, "server %d serves owner %d, who does not hear of it", int(o.to), i)
	w.hear(next, i, said)
}

// hear is the arrival of an answer.
func (w *search) hear(s state, i int, said answer) {
	o := &s.owners[i]
	kind := o.kind
	o.kind = nothing
	v := &s.servers[o.to]
	o.told = o.told || kind == reassert && said == yes && v.role == master
	if kind == reassert && said == yes && o.left && v.role == master {
		w.breach(NoneLeft, event{"owner %d, who has released it, has its hold put back at server %d", [3]int{i, int(o.to)}})
	}
	switch {
	case said == yes && o.lease && kind == renew && o.belief > 0:
		if left := v.data.lasts; left < o.trust && !(w.Doubts && w.look(v) > 0) {
			o.trust = left
		}
		w.reach(s, "owner %d finds its lease at server %d", i, int(o.to))
	case said == yes && o.lease && o.belief > 0:
		w.reach(s, "owner %d has its lease put right at server %d", i, int(o.to))
	case kind == acquire && said == yes:
		o.belief = w.TTL - o.age
		w.reach(s, "owner %d has the lock of server %d", i, int(o.to))
	case said == yes && o.belief > 0:
		o.belief = max(o.belief, w.TTL-o.age)
		w.reach(s, "owner %d is renewed by server %d", i, int(o.to))
	case kind == renew && said == no && o.belief > 0:
		w.miss(s, i)
	case kind == reassert && said == no && o.belief > 0:
		w.lose(s, i)
	}
}

// miss is what a Leash does about a hold that is not there: it looks whether the server is in
// grace.
func (w *search) miss(s state, i int) {
	o := &s.owners[i]
	v := &s.servers[o.to]
	if w.Grace > 0 && w.look(v) > 0 && w.Reassert {
		o.kind, o.age, o.identity = reassert, 0, v.identity
		w.reach(s, "owner %d is to be put back at server %d", i, int(o.to))
		return
	}
	w.lose(s, i)
}
