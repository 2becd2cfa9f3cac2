package failover

// Model is the rules, the numbers of owners and failovers, and durations in ticks.
type Model struct {
	Owners    int // 2 or 3
	Failovers int // how many there are at most

	TTL     uint8 // of the lock, from each renewal on
	Overlap uint8 // how long an old master may serve beside the new one
	Grace   uint8 // from the first probe of a new master; 0 for none

	Restores        bool // a hold that is missing on a master in grace is restored
	RunIDOnly       bool // a server that becomes master again counts as the same master
	IgnoresIdentity bool // the acquire script does not check which master it runs on
	// a master without a mark counts as settled, even if it was promoted
	TrustsPromoted bool
	// an old master may serve for longer than the lease, or the grace period, that it had when it
	// was replaced
	OutlivesLease bool

	// What else owners may do, and the rules for that. Each is searched separately, because
	// together they have too many states.
	Counts       bool // they acquire the lock once more, and release one by one
	RepairsCount bool // a master in grace gets the count
	// a release that leaves a wrong count checks whether the master is in grace
	ComparesCount bool
	Moves         bool // they move the hold to the other Leash, and back
	// a master in grace takes the carrier to which the hold was moved last
	FollowsMoves bool
	Extends      uint8 // they extend the hold to a lease of that length; 0 for not
	// a shorter lease than the owner was told is accepted only from a master that is not in grace
	DistrustsGrace bool
	// a release leaves a tombstone, so that a restore in flight does not restore the hold
	Tombstones bool
}

// start is a free lock on a settled master with its replica.
func (m Model) start() state {
	s := state{settled: [leashes][servers]uint8{{1}, {1}}}
	for i := range s.servers {
		s.servers[i].data = data{holder: none, marked: 1}
	}
	s.servers[0].identity = 1
	s.servers[1].role, s.servers[1].identity = replica, 2
	return s
}

// identity is the new identity of a promoted server.
func (m Model) identity(server int, failovers uint8) uint8 {
	if m.RunIDOnly {
		return uint8(server) + 1
	}
	return failovers + 2
}

func (s *server) active() bool { return s.role == master || s.role == oldMaster }

func (d *data) free() bool { return d.lasts == 0 }

// probe marks a server as a Leash's probe does. It returns how long the grace period still lasts.
func (m Model) probe(s *server) uint8 {
	if s.data.marked != s.identity {
		s.data.marked, s.data.grace = s.identity, 0
		if s.promoted && !m.TrustsPromoted {
			s.data.grace = m.Grace
		}
	}
	return s.data.grace
}

// answer is what the server says to a request.
type answer uint8

const (
	no answer = iota
	yes
	later // there is no answer now
)

// run executes an owner's request at the server.
func (m Model) run(o *owner, number int, s *server, fresh uint8) answer {
	d := &s.data
	mine := d.has(o, number)
	earlier := m.FollowsMoves && !d.free() && d.holder == uint8(number) && d.token == o.token && d.moves < o.moves
	switch {
	case o.kind == acquire && d.free() && (m.Grace == 0 || m.IgnoresIdentity || o.identity == s.identity):
		o.token, o.count, o.home, o.moves, o.lease = fresh, 1, home(number), 0, false
		d.count, d.home, d.moves = 1, o.home, 0
	case o.kind == renew && mine && o.lease:
		return yes
	case o.kind == renew && mine:
	case o.kind == restore && (o.identity != s.identity || d.marked != s.identity || d.grace == 0):
		return later
	case o.kind == restore && d.tombstones&(1<<number) != 0:
		return no
	case o.kind == restore && mine && !m.RepairsCount: // it is only raised
	case o.kind == restore && (mine || earlier || d.free() || d.token < o.token):
		// an older hold had ended before this one was granted
		d.count, d.home, d.moves = o.count, o.home, o.moves
	default:
		return no
	}
	d.holder, d.token = uint8(number), o.token
	if lasts := m.lasting(o); lasts > d.lasts || !o.lease {
		d.lasts = lasts
	}
	return yes
}

// lasting is how long an owner's hold lasts after a request.
func (m Model) lasting(o *owner) uint8 {
	if o.lease && o.kind == restore {
		return max(o.trust, 1)
	}
	return m.TTL
}

// has reports whether a server has an owner's hold, as its Leash carries it.
func (d *data) has(o *owner, number int) bool {
	return !d.free() && d.holder == uint8(number) && d.token == o.token && d.home == o.home
}

// promote makes a replica the master, and its master an old master.
func (m Model) promote(s *state, i int) {
	s.servers[i].role, s.servers[i].promoted, s.servers[i].identity = master, true, m.identity(i, s.failovers)
	s.failovers++
	for j := range s.owners {
		s.owners[j].upToDate, s.owners[j].reachedNew = false, false
	}
	old := &s.servers[1-i]
	old.role, old.serves = oldMaster, m.Overlap+1
	for _, left := range [...]uint8{old.data.lasts, old.data.grace} {
		if left > 0 && !m.OutlivesLease {
			old.serves = min(old.serves, left)
		}
	}
}

// tick lets time pass.
func (m Model) tick(s *state) {
	for i := range s.servers {
		v := &s.servers[i]
		countDown(&v.data.lasts)
		countDown(&v.data.grace)
		if countDown(&v.serves); v.role == oldMaster && v.serves == 0 {
			v.role = replica
		}
		if v.data.free() {
			v.data.end()
		}
	}
	for i := range s.owners {
		o := &s.owners[i]
		countDown(&o.belief)
		countDown(&o.trust)
		o.upToDate = o.upToDate && m.graced(s)
		o.reachedNew = o.reachedNew && (s.servers[0].role == oldMaster || s.servers[1].role == oldMaster)
		if o.kind != nothing {
			o.age = min(o.age+1, m.TTL)
		}
	}
}

// end is the end of a hold at a server.
func (d *data) end() {
	d.holder, d.token, d.lasts, d.count, d.home, d.moves = none, 0, 0, 0, 0, 0
}

// graced reports whether the master is in grace.
func (m Model) graced(s *state) bool {
	for i := range s.servers {
		if v := &s.servers[i]; v.role == master && v.data.grace > 0 {
			return true
		}
	}
	return false
}

// mustWait reports whether time must not pass. A master is then about to leave its grace period,
// and an owner's Leash that reaches it has not restored a hold, or a lease, there yet.
func (m Model) mustWait(s *state) bool {
	for i := range s.servers {
		v := &s.servers[i]
		if v.role != master || v.data.grace != 1 || v.data.marked != v.identity {
			continue
		}
		for j := range s.owners {
			if o := &s.owners[j]; m.doesMore() && o.belief > 0 && !o.upToDate && (o.lease || v.data.holder == uint8(j) && v.data.token == o.token) {
				return true
			}
		}
	}
	return false
}

// doesMore reports whether owners do more than acquire and release.
func (m Model) doesMore() bool { return m.Counts || m.Moves || m.Extends > 0 }

func countDown(n *uint8) {
	if *n > 0 {
		*n--
	}
}

// over reports whether there are no more failovers to come.
func (m Model) over(s *state) bool { return int(s.failovers) == m.Failovers }
