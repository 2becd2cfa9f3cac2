package lockcmd_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// walker is a connection on a random walk.
type walker struct {
	*locktest.Client
	name    string
	service *lockcmd.Service
	alive   bool
}

// walk sends random commands about one lock. It compares each reply with the model, and also the
// state of Redis and of the Leashes.
type walk struct {
	*rand.Rand
	t       *testing.T
	rdb     redis.UniversalClient
	key     string
	model   *model
	leashes []*lockcmd.Service
	walkers []*walker
	trace   []string
	tokens  []int64
}

// TestR4R7R11RandomWalks: Two Leashes and four connections use all modes, repeated IDs, moves and
// ends of connections.
func TestR4R7R11RandomWalks(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: time.Hour, UpstreamTimeout: time.Minute}
		leashes := []*lockcmd.Service{locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)}
		for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
			w := &walk{
				Rand: rand.New(rand.NewPCG(seed, 0)), t: t, rdb: rdb, key: locktest.NewKey(),
				model: &model{answers: make(map[string]string)}, leashes: leashes,
			}
			for i := range 4 {
				w.walkers = append(w.walkers, w.connect(i))
			}
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && len(w.trace) < 400; {
				w.step()
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(w.trace[max(0, len(w.trace)-40):], "\n"))
				}
			}
			for _, c := range w.walkers {
				w.close(c, lockcmd.Expire)
			}
		}
	})
}

func (w *walk) connect(i int) *walker {
	s := w.leashes[i%2]
	return &walker{Client: locktest.Connect(w.t, s), name: fmt.Sprintf("%c%d", 'a'+i, len(w.trace)), service: s,
		alive: true}
}

func (w *walk) chance(percent int) bool { return w.IntN(100) < percent }

func (w *walk) oneOf(of ...string) string { return of[w.IntN(len(of))] }

// step sends one command or ends a connection.
func (w *walk) step() {
	q := question{from: w.walkers[w.IntN(len(w.walkers))], mode: w.oneOf("", "", "READ", "WRITE")}
	if n := len(w.model.holds); n > 0 && w.chance(70) { // choose options that fit the existing holds
		q.mode = w.model.holds[w.IntN(n)].mode
	}
	if q.mode == "WRITE" && w.chance(30) {
		q.mode = "READ"
	}
	switch n := w.IntN(100); {
	case n < 45:
		w.acquire(q)
	case n < 75:
		w.release(q)
	case n < 85:
		w.attach(q)
	case n < 90:
		w.extend(q)
	case n < 95:
		q.token = w.token()
		present := w.model.find(byToken, func(h *modelHold) bool { return h.token == q.token }) != nil
		w.do(q.from, map[bool]string{true: ":1", false: ":0"}[present], "LOCK.CHECK", w.key, "TOKEN",
			strconv.FormatInt(q.token, 10))
	default:
		w.close(q.from, lockcmd.Ending(w.IntN(2)))
	}
	if !w.t.Failed() {
		w.compare()
	}
}

// token returns the token of an existing hold in most cases, or else one of the last tokens or an
// unknown one.
func (w *walk) token() int64 {
	if n := len(w.model.holds); n > 0 && w.chance(80) {
		return w.model.holds[w.IntN(n)].token
	}
	if len(w.tokens) == 0 {
		return 1
	}
	return w.tokens[max(0, len(w.tokens)-1-w.IntN(4))]
}

// do sends a command and returns the reply. It checks the reply, unless want is newToken.
func (w *walk) do(c *walker, want string, args ...string) (reply string) {
	w.t.Helper()
	reply = c.Do(args...)
	w.trace = append(w.trace, fmt.Sprintf("%s> %s: %s", c.name, strings.Join(args, " "), reply))
	if want != newToken && reply != want {
		w.t.Errorf("got reply %q, want %q", reply, want)
	}
	return reply
}

func (w *walk) acquire(q question) {
	if w.chance(20) && q.mode == "" {
		q.mode = "FAIR"
	}
	q.leased = w.chance(20)
	if w.chance(85) {
		q.owner, q.stays = w.oneOf("x", "x", "y"), w.chance(20)
		if w.chance(70) {
			q.id = w.oneOf("1", "2", "3")
		}
	}
	q.waits = w.chance(10)
	q.replicas = w.chance(4)
	if own := w.model.find(byToken, func(h *modelHold) bool { return h.owner == q.owner }); q.replicas && own != nil {
		q.leased = own.leased
	}
	args := []string{"LOCK.ACQUIRE", w.key}
	several := q.mode == "" && w.chance(20)
	if several {
		args = []string{"LOCK.MACQUIRE", "1", w.key}
	}
	add := func(yes bool, words ...string) {
		if yes {
			args = append(args, words...)
		}
	}
	add(q.mode != "", q.mode)
	add(q.owner != "", "OWNER", q.owner)
	add(q.id != "", "ID", q.id)
	add(q.leased, "LEASE", "3600000")
	add(q.stays, "ONCLOSE", "EXPIRE")
	add(q.replicas, "REPLICAS", "1")
	q.waits = q.waits || q.replicas
	add(q.waits, "BLOCK", "5")
	want := w.model.acquire(q)
	if several {
		switch want[0] {
		case ':':
			want = "*1\r\n" + want
		case '$':
			want = locktest.Null
		}
	}
	reply := strings.TrimPrefix(w.do(q.from, want, args...), "*1\r\n")
	if want != newToken {
		return
	}
	token, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil || len(w.tokens) > 0 && token <= w.tokens[len(w.tokens)-1] {
		w.t.Errorf("got reply %q, want a token above %d", reply, w.token())
		return
	}
	w.tokens = append(w.tokens, token)
	w.model.granted(q, token)
}

func (w *walk) release(q question) {
	if q.mode == "FAIR" || w.chance(50) {
		q.mode = ""
	}
	q.all = w.chance(15)
	args := []string{"LOCK.RELEASE", w.key}
	switch n := w.IntN(100); {
	case n < 30:
		q.owner = w.oneOf("x", "x", "y")
		if w.chance(50) {
			q.id = strconv.Itoa(w.IntN(len(w.trace)/8 + 1))
		}
	case n < 60:
		q.token = w.token()
	}
	if q.mode != "" {
		args = append(args, q.mode)
	}
	if q.owner != "" {
		args = append(args, "OWNER", q.owner)
	}
	if q.id != "" {
		args = append(args, "ID", q.id)
	}
	if q.token != 0 {
		args = append(args, "TOKEN", strconv.FormatInt(q.token, 10))
	}
	if q.all {
		args = append(args, "ALL")
	}
	w.do(q.from, w.model.unlock(q), args...)
}

func (w *walk) attach(q question) {
	q.owner, q.token = w.oneOf("x", "x", "y"), w.token()
	if q.mode == "FAIR" || w.chance(70) {
		q.mode = ""
	}
	args := []string{"LOCK.ATTACH", w.key, "OWNER", q.owner, "TOKEN", strconv.FormatInt(q.token, 10)}
	if q.mode != "" {
		args = append(args, q.mode)
	}
	want, closed := w.model.attach(q)
	w.do(q.from, want, args...)
	if closed != nil && closed.alive && !w.t.Failed() {
		if key := locktest.Receive(w.t, closed.Moved, 5*time.Second); key != w.key {
			w.t.Errorf("%s was told of %s", closed.name, key)
		}
		w.close(closed, lockcmd.Expire)
	}
}

func (w *walk) extend(q question) {
	switch w.IntN(3) {
	case 0:
		q.owner = w.oneOf("x", "y")
	case 1:
		q.token = w.token()
	}
	ms := 3_000_000 + w.Int64N(1_000_000)
	args := []string{"LOCK.EXTEND", w.key, strconv.FormatInt(ms, 10)}
	if q.owner != "" {
		args = append(args, "OWNER", q.owner)
	}
	if q.token != 0 {
		args = append(args, "TOKEN", strconv.FormatInt(q.token, 10))
	}
	w.do(q.from, w.model.extend(q, ms), args...)
}

// close ends a connection and opens another one in its place.
func (w *walk) close(c *walker, how lockcmd.Ending) {
	for i, other := range w.walkers {
		if other != c {
			continue
		}
		w.trace = append(w.trace, fmt.Sprintf("%s ends: %v", c.name, how))
		c.Carrier.End(how)
		c.Gone()
		c.alive = false
		w.model.closed(c, how)
		w.walkers[i] = w.connect(i)
	}
}

// compare compares Redis and the Leashes with the model. Events between the Leashes, and the end of
// a hold, may take a moment.
func (w *walk) compare() {
	w.t.Helper()
	for end := time.Now().Add(locktest.Soon); ; <-time.After(time.Millisecond) {
		wrong := w.inRedis()
		if wrong == "" {
			wrong = w.difference()
		}
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			w.t.Error(wrong)
			return
		}
	}
}

// inRedis says how Redis differs from the model. "" means no difference.
func (w *walk) inRedis() string {
	s := w.leashes[0]
	info, err := s.Redis.Inspect(script.Lock{Key: w.key}, s.Redis.Deadline())
	if err != nil || len(info.Holds) != len(w.model.holds) || len(info.Others) != 0 {
		return fmt.Sprintf("Redis has %d holds, want %d (%v)", len(info.Holds), len(w.model.holds), err)
	}
	for _, h := range w.model.holds {
		f, ok := info.Find(h.token)
		terms := f.Record.Terms()
		if !ok || f.Count != int64(h.count) || f.Record.Carrier != h.at.Carrier.Name ||
			f.Record.ID != script.RecordID(h.last) || terms.Lease != h.leased {
			return fmt.Sprintf("Redis has %+v, want %+v at %s", f, h, h.at.name)
		}
	}
	return ""
}

// difference says how the Leashes differ from the model. "" means no difference.
func (w *walk) difference() string {
	for _, c := range w.walkers {
		if len(c.Losses)+len(c.Moved) != 0 {
			return c.name + " was told of a loss"
		}
		n := 0
		for _, h := range w.model.holds {
			if h.at != c {
				continue
			}
			n++
			own := c.Last(func(own *hold.Hold) bool { return own.Token == h.token })
			if own == nil {
				return fmt.Sprintf("%s does not know of its hold %d", c.name, h.token)
			}
			d := own.Details()
			count, state, leased := int(d.Count), d.State, d.Terms.Lease
			if count != h.count || state != hold.Held || leased != h.leased {
				return fmt.Sprintf("%s has %d counts in state %d, leased %v, of %+v", c.name, count, state, leased, h)
			}
		}
		if got := c.Carrier.Holds(); got != n {
			return fmt.Sprintf("%s has %d holds, want %d", c.name, got, n)
		}
	}
	return ""
}
