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
	Trusting  bool // a master that nobody has looked at counts as settled, also when it was promoted
	Outlives  bool // an old master may serve on for longer than the lease, or the grace, lasts that it had when it was replaced
}

const (
	servers = 2
	leashes = 2
	owners  = 3
)

// state is everything at one moment. Times are what is left, so equal situations are equal states whenever they come.
type state struct {
	servers   [servers]server
	owners    [owners]owner
	settled   [leashes][servers]uint8 // the identity that a Leash last saw there out of grace; 0 for none
	failovers uint8
}

type role uint8

const (
	master role = iota
	ghost       // was the master, and serves on
	replica
)

type server struct {
	role     role
	serves   uint8 // a ghost: how many ticks it sees yet
	identity uint8
	promoted bool // as its replication says
	data     data
}

// data is what is replicated.
type data struct {
	holder uint8 // the owner's number; none if the lock is free
	token  uint8
	lasts  uint8
	marked uint8 // the identity that somebody has looked at; 0 for none
	grace  uint8 // of that master: how long yet
}

const none = 255

// home is the Leash of an owner.
func home(owner int) int { return min(owner, leashes-1) }

// owner is one that wants the lock, and its one request at a time.
type owner struct {
	belief   uint8 // for how long it may believe in the lock yet; 0: it does not
	token    uint8 // of the hold that it believes in, or that its request is about
	kind     kind
	to       uint8 // server
	identity uint8 // that the request names
	age      uint8 // since it was sent, up to TTL
}

type kind uint8

const (
	nothing kind = iota
	acquire
	renew
	reassert
)

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

// look is a Leash's look at a server, which leaves a mark there. It returns how long the grace lasts yet.
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
	mine := !d.free() && d.holder == uint8(number) && d.token == o.token
	switch {
	case o.kind == acquire && d.free() && (m.Grace == 0 || m.Loose || o.identity == s.identity):
		o.token = fresh
	case o.kind == renew && mine:
	case o.kind == reassert && (o.identity != s.identity || d.marked != s.identity || d.grace == 0):
		return later
	case o.kind == reassert && (mine || d.free() || d.token < o.token): // an older hold had ended before this one was granted
	default:
		return no
	}
	d.holder, d.token, d.lasts = uint8(number), o.token, m.TTL
	return yes
}

// promote makes a replica the master, and its master a ghost.
func (m Model) promote(s *state, i int) {
	s.servers[i].role, s.servers[i].promoted, s.servers[i].identity = master, true, m.identity(i, s.failovers)
	s.failovers++
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
			v.data.holder, v.data.token = none, 0
		}
	}
	for i := range s.owners {
		o := &s.owners[i]
		fade(&o.belief)
		if o.kind != nothing {
			o.age = min(o.age+1, m.TTL)
		}
	}
}

func fade(n *uint8) {
	if *n > 0 {
		*n--
	}
}

// over reports whether there are no more failovers to come.
func (m Model) over(s *state) bool { return int(s.failovers) == m.Failovers }

// retire forgets a server that will never serve again.
func (m Model) retire(s *state) {
	for i := range s.servers {
		if s.servers[i].role != replica || !m.over(s) {
			continue
		}
		s.servers[i] = server{role: replica}
		for leash := range s.settled {
			s.settled[leash][i] = 0
		}
		for j := range s.owners {
			if o := &s.owners[j]; o.kind != nothing && int(o.to) == i {
				o.kind = nothing
			}
		}
	}
}

// tidy makes states equal that differ in nothing that matters: tokens count by their order only.
func (s *state) tidy() {
	var used [8]bool
	tokens := s.tokens()
	for _, t := range tokens {
		used[*t] = true
	}
	var rank [8]uint8
	next := uint8(1)
	for t := 1; t < len(used); t++ {
		if used[t] {
			rank[t] = next
			next++
		}
	}
	for _, t := range tokens {
		*t = rank[*t]
	}
}

// tokens are those there are. An owner that neither believes nor asks has none.
func (s *state) tokens() (all [servers + owners]*uint8) {
	for i := range s.servers {
		all[i] = &s.servers[i].data.token
	}
	for i := range s.owners {
		o := &s.owners[i]
		if o.kind == nothing {
			o.to, o.identity, o.age = 0, 0, 0
			if o.belief == 0 {
				o.token = 0
			}
		}
		all[servers+i] = &o.token
	}
	return all
}

// fresh is a token above all others.
func (s *state) fresh() (t uint8) {
	for _, other := range s.tokens() {
		t = max(t, *other)
	}
	return t + 1
}
