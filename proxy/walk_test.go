package proxy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// walk has the two connections of one walker.
type walk struct {
	walker
	redis, leash *redistest.Client
	history      [][]string

	subscribed map[string]bool // as Leash has confirmed: "subscribe" and the channel
	published  map[string]bool // payloads
	passed     map[string]bool // messages that Leash has passed on
}

func (w *walk) close() {
	w.redis.Close()
	w.leash.Close()
}

// run sends a batch to both and compares the replies up to the last command, a PING with a mark.
func (w *walk) run(batch [][]string, rng *rand.Rand) error {
	w.history = append(w.history, batch...)
	var raw strings.Builder
	for _, args := range batch {
		raw.WriteString(redistest.Command(args...))
		if strings.HasSuffix(args[0], "PUBLISH") {
			w.published[args[2]] = true
		}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	// with a failure, a reply is missing
	sending.Go(func() { _ = w.redis.Send(raw.String()) })
	sending.Go(func() { _ = sendPieces(w.leash, raw.String(), cuts(raw.Len(), rng)) })
	mark := batch[len(batch)-1][1]
	redis, err := framesUntil(w.redis, mark)
	if err != nil {
		w.close()
		return fmt.Errorf("redis: %w; last came %.300q", err, lastOf(redis))
	}
	leash, err := framesUntil(w.leash, mark)
	if err != nil {
		w.close()
		return fmt.Errorf("leash: %w; last came %.300q", err, lastOf(leash))
	}
	return w.compare(redis, leash)
}

func framesUntil(c *redistest.Client, mark string) (frames []frame, err error) {
	for {
		raw, err := c.Read()
		if err != nil {
			return frames, err
		}
		f := parseFrame(raw)
		frames = append(frames, f)
		if f.text == mark || len(f.elems) == 2 && f.elems[0].text == "pong" && f.elems[1].text == mark {
			return frames, nil
		}
	}
}

func lastOf(frames []frame) (raws []string) {
	for _, f := range frames[max(0, len(frames)-3):] {
		raws = append(raws, f.raw)
	}
	return raws
}

// compare compares the replies and their order. Messages may come at other times than from Redis,
// because Leash gets them on another connection. They may come later, be missing after the channel
// was left, or come though they were published just before it was joined. But each comes at most
// once, and only while the client is subscribed.
func (w *walk) compare(redis, leash []frame) error {
	var replies []frame
	for _, f := range redis {
		if channel, _ := messageOf(f); channel == "" {
			replies = append(replies, f)
		}
	}
	i := 0
	for _, f := range leash {
		if channel, how := messageOf(f); channel != "" {
			if !w.subscribed[how+channel] {
				return fmt.Errorf("a message without a subscription: %.300q", f.raw)
			}
			if !w.published[f.elems[len(f.elems)-1].text] || w.passed[f.raw[1:]] {
				return fmt.Errorf("a message that was not published, or not twice: %.300q", f.raw)
			}
			w.passed[f.raw[1:]] = true // in RESP2 or RESP3
			continue
		}
		if i == len(replies) || canonical(f) != canonical(replies[i]) && !(few(f, 9) && few(replies[i], 3)) {
			return fmt.Errorf("reply %d\nredis: %.400q\nleash: %.400q", i, replies[min(i, len(replies)-1)].raw, f.raw)
		}
		w.note(f)
		i++
	}
	if i != len(replies) {
		return fmt.Errorf("leash gives %d replies, redis %d", i, len(replies))
	}
	return nil
}

// few recognises replies of PUBLISH, which are not compared. A client of the test receives a
// message at most three times: by the channel and by two patterns. Leash stays subscribed for a
// moment after its last subscriber has gone, as each of the three users.
func few(f frame, most int) bool {
	n, err := strconv.Atoi(f.text)
	return f.kind == ':' && err == nil && n <= most
}

// messageOf returns the channel or pattern of a message, and the command that subscribes to it.
func messageOf(f frame) (channel, how string) {
	if (f.kind == '>' || f.kind == '*') && len(f.elems) >= 3 {
		switch f.elems[0].text {
		case "message":
			return f.elems[1].text, "subscribe"
		case "pmessage":
			return f.elems[1].text, "psubscribe"
		case "smessage":
			return f.elems[1].text, "ssubscribe"
		}
	}
	return "", ""
}

// note follows what the client is subscribed to.
func (w *walk) note(f frame) {
	if f.text == "RESET" {
		clear(w.subscribed)
	}
	if len(f.elems) == 3 && f.elems[2].kind == ':' {
		what, channel := f.elems[0].text, f.elems[1].text
		switch what {
		case "subscribe", "psubscribe", "ssubscribe":
			w.subscribed[what+channel] = true
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			delete(w.subscribed, strings.Replace(what, "un", "", 1)+channel)
		}
	}
	for _, e := range f.elems { // of EXEC
		w.note(e)
	}
}

// canonical returns the part of a reply that must be equal. It leaves out the id in HELLO, and the
// order in which all channels are left, which is that of a hash table.
func canonical(f frame) string {
	if len(f.elems) == 14 && f.elems[0].text == "server" {
		return fmt.Sprintf("HELLO%c%s", f.kind, f.elems[5].raw)
	}
	if len(f.elems) == 3 && strings.HasSuffix(f.elems[0].text, "unsubscribe") {
		return fmt.Sprintf("%c%s%s", f.kind, f.elems[0].text, f.elems[2].raw)
	}
	if len(f.elems) == 0 {
		return f.raw
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%c%d", f.kind, len(f.elems))
	for _, e := range f.elems {
		b.WriteString(canonical(e))
	}
	return b.String()
}

// walks is a test of many walkers at once.
type walks struct {
	redis, leash string
	cluster      bool
}

// start connects a walker and deletes its keys.
func (ws *walks) start(w walker) (*walk, error) {
	one := &walk{walker: w, subscribed: map[string]bool{}, published: map[string]bool{}, passed: map[string]bool{}}
	var errs [2]error
	if one.redis, errs[0] = redistest.Dial(ws.redis); errs[0] != nil {
		return nil, errs[0]
	}
	if one.leash, errs[1] = redistest.Dial(ws.leash); errs[1] != nil {
		one.redis.Close()
		return nil, errs[1]
	}
	for db := range 3 {
		for _, c := range []*redistest.Client{one.redis, one.leash} {
			if !ws.cluster {
				_, errs[0] = c.Do("SELECT", strconv.Itoa(2-db))
			}
			if _, errs[1] = c.Do("DEL", "{"+w.id+"}a", "{"+w.id+"}b", "{"+w.id+"}l", "{"+w.id+"}m",
				"{"+w.id+"}n"); errors.Join(errs[:]...) != nil {
				one.close()
				return nil, errors.Join(errs[:]...)
			}
		}
	}
	return one, nil
}

// failure is a walk in which Leash differs from Redis.
type failure struct {
	walker
	err     error
	history [][]string
}

// walk runs one walker.
func (ws *walks) walk(w walker, batches int) (messages int, failed *failure) {
	one, err := ws.start(w)
	if err != nil {
		return 0, &failure{w, err, nil}
	}
	defer one.close()
	for range batches {
		if err := one.run(one.batch(), w.rng); err != nil {
			return len(one.passed), &failure{w, err, one.history}
		}
	}
	return len(one.passed), nil
}

// intrude sends what a walker would send, and closes in the middle of it.
func (ws *walks) intrude(w walker) error {
	c, err := redistest.Dial(ws.leash)
	if err != nil {
		return err
	}
	defer c.Close()
	var raw strings.Builder
	for _, args := range w.batch() {
		raw.WriteString(redistest.Command(args...))
	}
	_ = c.Send(raw.String()[:w.rng.IntN(raw.Len())]) // QUIT may have closed it
	for range w.rng.IntN(4) {
		c.Timeout = 20 * time.Millisecond
		_, _ = c.Read() // or nothing comes
	}
	return nil
}

// explain shrinks a failed walk.
func (ws *walks) explain(f *failure) string {
	if len(f.history) == 0 {
		return f.err.Error()
	}
	replay := func(commands [][]string) error {
		one, err := ws.start(f.walker)
		if err != nil {
			return err
		}
		defer one.close()
		one.redis.Timeout, one.leash.Timeout = 2*time.Second, 2*time.Second
		return one.run(append(slices.Clip(commands), []string{"PING", "theend"}), nil)
	}
	differs := func(commands [][]string) bool {
		err := replay(commands)
		return err != nil && !strings.HasPrefix(err.Error(), "redis:") // it is muted, say
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", f.err)
	least := f.history
	if !differs(least) {
		least = least[max(0, len(least)-60):]
		b.WriteString("It does not happen again. The last commands were:\n")
	} else {
		least = shrink(least, shrinkLimit, differs)
		fmt.Fprintf(&b, "The least that shows it, sent in one go:\n")
	}
	for _, args := range least {
		fmt.Fprintf(&b, "> %s\n", asTyped(args))
	}
	fmt.Fprintf(&b, "%v\n", replay(least))
	return b.String()
}

// TestRandomWalks checks that replies are those of Redis, in the right order, through random
// states of a connection, all pipelined. Nothing hangs. Nothing is left behind after all clients
// are gone, some of them in the middle of a command.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	const walkers, batches, intruders = 8, 60, 60
	often := []string{"--hz", "500"}
	single := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1, Args: often})
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Args: often})
	for _, tc := range []struct {
		name          string
		plain, behind []*redistest.Server
	}{
		{"standalone", []*redistest.Server{redistest.Start(t, often...)},
			[]*redistest.Server{redistest.Start(t, often...)}},
		{"cluster", servers(single), servers(cluster)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, s := range append(tc.plain, tc.behind...) {
				for _, user := range walkUsers {
					if err := s.Client().Do(t.Context(), user...).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			l := proxytest.Start(t, addrs(tc.behind))
			ws := &walks{redis: tc.plain[0].Addr, leash: l.Addr, cluster: len(tc.behind) > 1}
			rng := rand.New(rand.NewPCG(proxytest.Seed(t), 1))
			messages, failures := make([]int, walkers), make([]*failure, walkers+intruders)
			var walking sync.WaitGroup
			for i := range failures {
				w := walker{rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), id: "w" + strconv.Itoa(i), cluster: ws.cluster}
				walking.Go(func() {
					if i < walkers {
						messages[i], failures[i] = ws.walk(w, batches)
					} else if err := ws.intrude(w); err != nil {
						failures[i] = &failure{w, err, nil}
					}
				})
			}
			walking.Wait()
			for _, f := range failures {
				if f != nil {
					t.Fatal(ws.explain(f))
				}
			}
			if slices.Max(messages) == 0 {
				t.Error("no message ever came")
			}
			ws.wantNothingLeft(t, l, tc.behind)
		})
	}
}

// wantNothingLeft waits until Leash has released what its clients needed. The connections of the
// first lane, some unused pinned ones and the locks' own subscription remain.
func (ws *walks) wantNothingLeft(t *testing.T, l *proxytest.Leash, behind []*redistest.Server) {
	t.Helper()
	c := l.Dial(t)
	for _, line := range []string{"sessions:1", "pinned_connections:0", "subscribers:0", "upstream_subscriptions:1",
		"holds:0", "waiters:0"} {
		proxytest.Eventually(t, "leash_"+line, func() bool {
			return strings.Contains(c.Reply(t, "INFO", "leash"), "leash_"+line+"\r\n")
		})
	}
	for _, s := range behind {
		proxytest.Eventually(t, "users' connections closed", func() bool {
			list, err := s.Client().ClientList(t.Context()).Result()
			left := slices.DeleteFunc(strings.Split(list, "\n"), func(line string) bool {
				return line == "" || strings.Contains(line, " user=default ") && strings.Contains(line, " db=0 ")
			})
			return err == nil && len(left) == 0
		})
	}
}
