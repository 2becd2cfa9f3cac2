package failover

const (
	servers = 2
	leashes = 2
	owners  = 3
)

// state is everything at one moment. Times are remaining times, so equal situations are equal
// states at any time.
type state struct {
	servers [servers]server
	owners  [owners]owner
	// the identity of a master that a Leash last saw there out of grace; 0 for none
	settled   [leashes][servers]uint8
	failovers uint8
}

type role uint8

const (
	master    role = iota
	oldMaster      // was the master, and still serves
	replica
)

type server struct {
	role     role
	serves   uint8 // of an old master: how many ticks it still serves
	identity uint8
	promoted bool // it has become master by a promotion
	data     data
}

// data is what is replicated.
type data struct {
	holder     uint8 // the owner's number; none if the lock is free
	token      uint8
	lasts      uint8
	count      uint8
	home       uint8 // the Leash that carries the hold
	moves      uint8
	tombstones uint8 // a bit for each owner whose hold must not be restored
	marked     uint8 // the identity that a probe has marked; 0 for none
	grace      uint8 // of that master: how long it still lasts
}

const none = 255

// home is the Leash of an owner.
func home(owner int) uint8 { return uint8(min(owner, leashes-1)) }

// owner is a client that wants the lock. It has one request at a time.
type owner struct {
	belief     uint8 // how long it may still believe in the lock; 0: it does not
	token      uint8 // of the hold that it believes in, or that its request is about
	kind       kind
	to         uint8 // server
	identity   uint8 // that the request names
	age        uint8 // since it was sent, up to TTL
	count      uint8
	home       uint8 // the Leash that carries the hold
	moves      uint8
	lease      bool  // the hold is not renewed
	trust      uint8 // of a lease: how long its Leash still believes in it
	upToDate   bool  // the master in grace has the hold as its Leash knows it
	reachedNew bool  // its Leash was answered by the new master
	released   bool  // it was released while a restore was in flight
}

type kind uint8

const (
	nothing kind = iota
	acquire
	renew
	restore
)

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

// normalize makes states equal that differ only in the values of tokens, not in their order.
func (s *state) normalize() {
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

// tokens are all tokens. An owner without a belief and without a request has none.
func (s *state) tokens() (all [servers + owners]*uint8) {
	for i := range s.servers {
		all[i] = &s.servers[i].data.token
	}
	for i := range s.owners {
		o := &s.owners[i]
		if o.kind == nothing {
			o.to, o.identity, o.age, o.released = 0, 0, 0, false
			for j := range s.servers {
				s.servers[j].data.tombstones &^= 1 << i
			}
			if o.belief == 0 {
				o.token, o.count, o.home, o.moves, o.lease, o.trust, o.upToDate, o.reachedNew = 0, 0, 0, 0, false, 0, false, false
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
