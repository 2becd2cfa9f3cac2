package failover

const (
	servers = 2
	leashes = 2
	owners  = 3
)

// state is everything at one moment. Times are what is left, so equal situations are equal states
// whenever they come.
type state struct {
	servers [servers]server
	owners  [owners]owner
	// the identity that a Leash last saw there out of grace; 0 for none
	settled   [leashes][servers]uint8
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
	count  uint8
	home   uint8 // the Leash that carries the hold
	moves  uint8
	graves uint8 // a bit for each owner whose hold is not to be put back
	marked uint8 // the identity that somebody has looked at; 0 for none
	grace  uint8 // of that master: how long yet
}

const none = 255

// home is the Leash of an owner.
func home(owner int) uint8 { return uint8(min(owner, leashes-1)) }

// owner is one that wants the lock, and its one request at a time.
type owner struct {
	belief   uint8 // for how long it may believe in the lock yet; 0: it does not
	token    uint8 // of the hold that it believes in, or that its request is about
	kind     kind
	to       uint8 // server
	identity uint8 // that the request names
	age      uint8 // since it was sent, up to TTL
	count    uint8
	home     uint8 // the Leash that carries the hold
	moves    uint8
	lease    bool  // the hold is not renewed
	trust    uint8 // of a lease: for how long its Leash believes in it yet
	told     bool  // the master, which is in grace, knows of the hold what its Leash does
	met      bool  // its Leash was answered by the new master
	left     bool  // it was released while a request to put it back was on its way
}

type kind uint8

const (
	nothing kind = iota
	acquire
	renew
	reassert
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
			o.to, o.identity, o.age, o.left = 0, 0, 0, false
			for j := range s.servers {
				s.servers[j].data.graves &^= 1 << i
			}
			if o.belief == 0 {
				o.token, o.count, o.home, o.moves, o.lease, o.trust, o.told, o.met = 0, 0, 0, 0, false, 0, false, false
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
