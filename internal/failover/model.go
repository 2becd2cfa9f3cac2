package failover

// Model is the rules that hold, how many there are of what, and the lengths of things in ticks.
type Model struct {
	Owners    int // 2 or 3
	Failovers int // how many there are at most

	TTL     uint8 // of the lock, from each renewal on
	Overlap uint8 // for how long an old master may serve on beside the new one
	Grace   uint8 // from the first look at a new master on; 0 for none

	Reassert  bool // a hold that is missing on a master in grace is put back
	RunIDOnly bool // a master that was one before counts as the same one
	Loose     bool // the script that grants does not look at which master it runs on
	// a master that nobody has looked at counts as settled, also when it was promoted
	Trusting bool
	// an old master may serve on for longer than the lease, or the grace, lasts that it had when it
	// was replaced
	Outlives bool

	// What owners may do besides, and the rules for that. Each is searched by itself: together they
	// are too many states.
	Counts   bool // they enter the lock again, once, and release one by one
	Recounts bool // a master in grace is told the count
	// a release that left more or less than it should looks whether the master is in grace
	Compares bool
	Moves    bool // they move the hold to the other Leash, and back
	// of two carriers, a master in grace takes the one to which the hold was moved later
	Follows bool
	Extends uint8 // they make a lease of the hold, of that length; 0 for not
	// a look that takes from a lease what its owner was told is believed only of a master that is
	// in no grace
	Doubts bool
	// a release, while a request that puts the hold back is on its way, keeps that from doing so
	Buries bool
}

// start is the lock free on a master that has long been one, with its replica.
func (m Model) start() state {
	s := state{settled: [leashes][servers]uint8{{1}, {1}}}
	for i := range s.servers {
		s.servers[i].data = data{holder: none, marked: 1}
	}
	s.servers[0].identity = 1
	s.servers[1].role, s.servers[1].identity = replica, 2
	return s
}

// identity is a promoted server's new one.
func (m Model) identity(server int, failovers uint8) uint8 {
	if m.RunIDOnly {
		return uint8(server) + 1
	}
	return failovers + 2
}

func (s *server) active() bool { return s.role == master || s.role == ghost }

func (d *data) free() bool { return d.lasts == 0 }

// look is a Leash's look at a server, which leaves a mark there. It returns how long the grace
// lasts yet.
func (m Model) look(s *server) uint8 {
	if s.data.marked != s.identity {
		s.data.marked, s.data.grace = s.identity, 0
		if s.promoted && !m.Trusting {
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
	later // it is not to be answered now
)

// run is an owner's request at the server.
func (m Model) run(o *owner, number int, s *server, fresh uint8) answer {
	d := &s.data
	mine := d.has(o, number)
	earlier := m.Follows && !d.free() && d.holder == uint8(number) && d.token == o.token && d.moves < o.moves
	switch {
	case o.kind == acquire && d.free() && (m.Grace == 0 || m.Loose || o.identity == s.identity):
		o.token, o.count, o.home, o.moves, o.lease = fresh, 1, home(number), 0, false
		d.count, d.home, d.moves = 1, o.home, 0
	case o.kind == renew && mine && o.lease:
		return yes
	case o.kind == renew && mine:
	case o.kind == reassert && (o.identity != s.identity || d.marked != s.identity || d.grace == 0):
		return later
	case o.kind == reassert && d.graves&(1<<number) != 0:
		return no
	case o.kind == reassert && mine && !m.Recounts: // it is only raised
	case o.kind == reassert && (mine || earlier || d.free() || d.token < o.token):
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

// lasting is for how long an owner's hold is to last from a request on.
func (m Model) lasting(o *owner) uint8 {
	if o.lease && o.kind == reassert {
		return max(o.trust, 1)
	}
	return m.TTL
}

// has reports whether a server has an owner's hold, as its Leash carries it.
func (d *data) has(o *owner, number int) bool {
	return !d.free() && d.holder == uint8(number) && d.token == o.token && d.home == o.home
}

// promote makes a replica the master, and its master a ghost.
func (m Model) promote(s *state, i int) {
	s.servers[i].role, s.servers[i].promoted, s.servers[i].identity = master, true, m.identity(i, s.failovers)
	s.failovers++
	for j := range s.owners {
		s.owners[j].told, s.owners[j].met = false, false
	}
	old := &s.servers[1-i]
	old.role, old.serves = ghost, m.Overlap+1
	for _, left := range [...]uint8{old.data.lasts, old.data.grace} {
		if left > 0 && !m.Outlives {
			old.serves = min(old.serves, left)
		}
	}
}

// tick lets time pass.
func (m Model) tick(s *state) {
	for i := range s.servers {
		v := &s.servers[i]
		fade(&v.data.lasts)
		fade(&v.data.grace)
		if fade(&v.serves); v.role == ghost && v.serves == 0 {
			v.role = replica
		}
		if v.data.free() {
			v.data.end()
		}
	}
	for i := range s.owners {
		o := &s.owners[i]
		fade(&o.belief)
		fade(&o.trust)
		o.told = o.told && m.graced(s)
		o.met = o.met && (s.servers[0].role == ghost || s.servers[1].role == ghost)
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

// hangs reports whether time must wait: a master is about to leave its grace, and an owner's Leash,
// which would reach it, has not told it of a hold that it has, or of a lease.
func (m Model) hangs(s *state) bool {
	for i := range s.servers {
		v := &s.servers[i]
		if v.role != master || v.data.grace != 1 || v.data.marked != v.identity {
			continue
		}
		for j := range s.owners {
			if o := &s.owners[j]; m.asks() && o.belief > 0 && !o.told && (o.lease || v.data.holder == uint8(j) && v.data.token == o.token) {
				return true
			}
		}
	}
	return false
}

// asks reports whether owners do more than to take the lock and to release it.
func (m Model) asks() bool { return m.Counts || m.Moves || m.Extends > 0 }

func fade(n *uint8) {
	if *n > 0 {
		*n--
	}
}

// over reports whether there are no more failovers to come.
func (m Model) over(s *state) bool { return int(s.failovers) == m.Failovers }
