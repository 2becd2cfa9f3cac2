package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// Users are the users that have clients now. A nil *Users has no limits.
type Users struct {
	most    Limits
	refused [Kinds]atomic.Int64
	delayed atomic.Int64 // commands that had to wait

	// mu guards the map and User.refs.
	mu   sync.Mutex
	here map[string]*User
}

// New makes Users with limits. It returns nil if there are none.
func New(most Limits) *Users {
	if most == (Limits{}) {
		return nil
	}
	return &Users{most: most, here: make(map[string]*User)}
}

// User is what one user has. A nil *User has no limits.
type User struct {
	Name  string
	users *Users
	refs  int64
	used  [Kinds]atomic.Int64
	pace  *Bucket // nil: no limit of commands
}

// Enter counts one more client of a user. It returns false if the user has too many. The caller
// must call Leave later.
func (u *Users) Enter(name string) (*User, bool) {
	if u == nil {
		return nil, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.here[name]
	if one == nil {
		one = &User{Name: name, users: u}
		if rate := u.most[Commands]; rate > 0 {
			one.pace = NewBucket(rate)
		}
	}
	if limit := u.most[Clients]; limit > 0 && one.refs >= limit {
		u.refused[Clients].Add(1)
		return nil, false
	}
	one.refs++
	u.here[name] = one
	return one, true
}

// Leave is the opposite of Enter.
func (o *User) Leave() {
	if o == nil {
		return
	}
	o.users.mu.Lock()
	defer o.users.mu.Unlock()
	if o.refs--; o.refs == 0 {
		delete(o.users.here, o.Name)
	}
}

// Take takes n of a kind. It returns false, and takes nothing, if the user would have too many.
func (o *User) Take(k Kind, n int64) bool {
	if o == nil {
		return true
	}
	if limit := o.users.most[k]; o.used[k].Add(n) > limit && limit > 0 {
		o.used[k].Add(-n)
		o.users.refused[k].Add(1)
		return false
	}
	return true
}

// HasRoom reports whether the user may have n more of a kind. It takes nothing.
func (o *User) HasRoom(k Kind, n int64) bool {
	if o == nil || o.users.most[k] == 0 || o.used[k].Load()+n <= o.users.most[k] {
		return true
	}
	o.users.refused[k].Add(1)
	return false
}

// Add changes what the user has of a kind, whatever the limit.
func (o *User) Add(k Kind, n int64) {
	if o != nil && n != 0 {
		o.used[k].Add(n)
	}
}

// Limits reports whether there is a limit for a kind.
func (o *User) Limits(k Kind) bool { return o != nil && o.users.most[k] > 0 }

// Most returns the limit of a kind. It is 0 if there is none.
func (u *Users) Most(k Kind) int64 {
	if u == nil {
		return 0
	}
	return u.most[k]
}

// NoteRefused counts n refusals because of a kind that the caller counts itself.
func (u *Users) NoteRefused(k Kind, n int64) { u.refused[k].Add(n) }

// Pace allows commands, and returns how many: see Bucket.Take. Call it only if Limits(Commands).
func (o *User) Pace(now time.Time) (commands int, wait time.Duration, ok bool) {
	commands, wait, ok = o.pace.Take(now)
	switch {
	case !ok:
		o.users.refused[Commands].Add(1)
	case wait > 0:
		o.users.delayed.Add(1)
	}
	return commands, wait, ok
}

// Refused returns how often each kind has been refused, by its name.
func (u *Users) Refused() map[string]int64 {
	counts := make(map[string]int64, Kinds)
	for k, name := range Names {
		if u != nil {
			counts[name] = u.refused[k].Load()
		}
	}
	return counts
}

// Delayed returns how often clients had to wait because of Commands.
func (u *Users) Delayed() int64 {
	if u == nil {
		return 0
	}
	return u.delayed.Load()
}
