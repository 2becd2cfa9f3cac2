package call

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

const slot = 7629 // of the key k

// scene is one combination of what decides over a part, and what happens to it.
type scene struct {
	mode    string
	kind    string // of the part
	later   string // what was sent after it
	over    bool   // the time for redirects is over
	nowhere bool   // no node has the slot
	begun   bool   // the client has a piece of the reply
	happens string // a reply, or the loss in losses
}

var (
	modes  = []string{"cluster", "sentinel", "standalone"}
	kinds  = []string{"get", "eval", "evalsha", "mget", "keyless", "fixed", "replica", "own", "abandoned", "share"}
	laters = []string{"", "same slot", "other slot"}

	redirects = []string{
		"-MOVED 7629 b:1\r\n", "-MOVED 7629 c:1\r\n", "-MOVED 1 b:1\r\n", "-ASK 7629 b:1\r\n", "-MOVED 7629\r\n",
	}
	replies = append([]string{
		"+OK\r\n", "-ERR wrong\r\n", "-" + TryAgain + "\r\n", "-TRYAGAIN by a script\r\n", "-" + ErrorUnserved + "\r\n",
		"-CLUSTERDOWN The cluster is down and only accepts read commands\r\n", noScript, readOnly,
		"-LOADING Redis is loading the dataset in memory\r\n", "-BUSY Redis is busy\r\n",
	}, redirects...)

	losses = map[string]struct {
		written bool
		cause   error
	}{
		"lost written":  {true, errors.New("reset")},
		"lost unsent":   {false, errors.New("cannot dial")},
		"lost closed":   {false, links.ErrClosed},
		"lost dropped":  {false, links.ErrDropped},
		"lost refused":  {false, dial.ErrRefused},
		"lost database": {false, &dial.NoDatabase{Reply: "ERR DB index is out of range"}},
		"lost panic":    {true, &guard.Panic{Value: "for the test"}},
	}
)

// all calls f for every scene.
func all(f func(scene)) {
	happenings := replies
	for name := range losses {
		happenings = append(happenings, name)
	}
	for _, mode := range modes {
		for _, kind := range kinds {
			for _, later := range laters {
				for flags := range 8 {
					for _, happens := range happenings {
						f(scene{mode, kind, later, flags&1 != 0, flags&2 != 0, flags&4 != 0, happens})
					}
				}
			}
		}
	}
}

var requests = map[string]string{
	"eval":    words("EVAL", "return 1", "1", "k"),
	"evalsha": words("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", "k"),
	"mget":    words("MGET", "k", "{k}2"),
}

// words returns a request.
func words(args ...string) string { return string(resp.AppendCommand(nil, args...)) }

// outcome is what has come of a part right after it happened.
type outcome struct {
	sent      []submit // what was sent because of it
	postponed bool
	reply     string // what the client has got
}

// play makes a scene.
func (c scene) play() (*testSession, outcome) {
	s := newSession()
	s.mode = c.mode
	if c.over {
		s.timeout = -1
	}
	request := requests[c.kind]
	if request == "" {
		request = words("GET", "k")
	}
	var p *Part
	switch c.kind {
	case "keyless":
		p = s.push(slots.Any, request)
	case "fixed", "share":
		p = NewPart([]byte(request), slot)
		if c.kind == "fixed" {
			p = FixedPart([]byte(request))
		}
		s.queue.PushShares(&Shares{Parts: []*Part{p}, Merge: merge.First})
	default:
		p = s.push(slot, request)
	}
	own := &ownPath{session: s}
	switch c.kind {
	case "replica":
		p.UseReplica(true)
	case "own", "abandoned":
		p.Via(own)
	}
	p.Send(a)
	switch c.later {
	case "same slot":
		s.push(slot, words("DEL", "k")).Send(a)
	case "other slot":
		s.push(1, words("DEL", "x")).Send(a)
	}
	if c.nowhere {
		s.owner = nil
	}
	if c.begun {
		p.Reply([]byte("$5\r\n"), false)
	}
	own.gone = c.kind == "abandoned"
	s.taken()
	if loss, ok := losses[c.happens]; ok {
		p.Lost(loss.written, loss.cause)
	} else if f := p.Reply([]byte(c.happens), true); f != nil {
		f.Flush()
	}
	return s, outcome{s.taken(), s.postponed() > 0, s.got()}
}

// TestEveryTransition checks, for each combination, the rules that hold for all of them.
func TestEveryTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no pause ends
		checkScenes(t)
	})
}

func checkScenes(t *testing.T) {
	scenes := 0
	all(func(c scene) {
		scenes++
		s, o := c.play()
		fails := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("%+v: %s; outcome %+v", c, fmt.Sprintf(format, args...), o)
		}
		loss, lost := losses[c.happens]
		_, panicked := loss.cause.(*guard.Panic)
		replica := c.kind == "replica"
		ended := s.queue.n == min(len(c.later), 1)
		outcomes := 0
		for _, is := range []bool{len(o.sent) > 0, o.postponed, ended, s.failed > 0} {
			if is {
				outcomes++
			}
		}
		switch {
		case c.begun && (len(o.sent) > 0 || o.postponed):
			fails("it is sent again although the client has a piece of the reply")
		case !c.begun && outcomes != 1:
			fails("%d outcomes, want one", outcomes)
		case panicked != (s.failed > 0):
			fails("the session failed %d times", s.failed)
		case loss.written && !replica && (len(o.sent) > 0 || o.postponed):
			fails("it is sent again although Redis may have executed it")
		case c.kind == "fixed" && (len(o.sent) > 0 || o.postponed):
			fails("it is sent again although it is about one node")
		case c.over && o.postponed:
			fails("it is postponed although the time is over")
		case c.later == "same slot" && o.postponed:
			fails("a later command on the slot overtakes it")
		case c.mode != "cluster" && c.later != "" && o.postponed:
			fails("a later command overtakes it")
		case c.mode == "cluster" && len(o.sent) > 0 && o.sent[0].node == b && c.kind == "keyless" && !lost:
			fails("a command without a slot follows a redirect")
		case !lost && o.reply == c.happens && c.mode == "cluster" && !c.begun && c.kind != "keyless" && c.kind != "fixed" &&
			(strings.HasPrefix(c.happens, "-MOVED 7629 ") || strings.HasPrefix(c.happens, "-ASK ")):
			fails("the client gets a redirect")
		case s.moved && (c.kind == "eval" || c.kind == "evalsha" || c.mode != "cluster"):
			fails("a redirect that a script can have made has changed the topology")
		}
	})
	if scenes < 5000 {
		t.Errorf("only %d scenes", scenes)
	}
}

// TestWhatIsSent checks what is sent in typical scenes, at once and after the first pause.
func TestWhatIsSent(t *testing.T) {
	load := words("SCRIPT", "LOAD", "return 1")
	for _, one := range []struct {
		scene scene
		now   []submit // at once
		later []submit // after a pause
		reply string   // at the end, if nothing else comes
	}{
		{scene{happens: redirects[0]}, []submit{{node: b}}, nil, ""},
		{scene{happens: "-ASK 7629 b:1\r\n"}, []submit{{node: b, asking: true}}, nil, ""},
		{scene{happens: redirects[0], later: "same slot", over: true}, []submit{{node: b}}, nil, ""},
		{scene{happens: redirects[1]}, nil, []submit{{node: a}}, ""},
		{scene{happens: redirects[1], over: true}, nil, nil, "-" + ErrorUnserved + "\r\n"},
		{scene{happens: redirects[2]}, nil, nil, redirects[2]},
		{scene{happens: redirects[0], kind: "eval"}, nil, []submit{{node: a}}, ""},
		{scene{happens: redirects[0], mode: "standalone"}, nil, nil, redirects[0]},
		{scene{happens: "-" + TryAgain + "\r\n"}, nil, []submit{{node: a}}, ""},
		{scene{happens: "-" + TryAgain + "\r\n", later: "same slot"}, nil, nil, "-" + TryAgain + "\r\n"},
		{scene{happens: "-" + TryAgain + "\r\n", kind: "mget"},
			[]submit{{a, false, false, words("MGET", "k")}, {a, false, false, words("MGET", "{k}2")}}, nil, ""},
		{scene{happens: "-" + ErrorUnserved + "\r\n", nowhere: true}, nil, nil, ""},
		{scene{happens: noScript, kind: "evalsha"},
			[]submit{{a, false, false, load}, {a, false, false, requests["evalsha"]}}, nil, ""},
		{scene{happens: noScript, kind: "evalsha", later: "same slot"}, nil, nil, noScript},
		{scene{happens: readOnly, mode: "sentinel"}, nil, []submit{{node: a}}, ""},
		{scene{happens: "-LOADING …\r\n", kind: "replica"}, []submit{{node: a}}, nil, ""},
		{scene{happens: "lost written", kind: "replica"}, []submit{{node: a}}, nil, ""},
		{scene{happens: "lost written"}, nil, nil, "-" + ErrorLost + "\r\n"},
		{scene{happens: "lost written", kind: "abandoned"}, nil, nil, ""},
		{scene{happens: "lost closed"}, []submit{{node: a}}, nil, ""},
		{scene{happens: "lost unsent", kind: "keyless"}, []submit{{node: b}}, nil, ""},
		{scene{happens: "lost dropped"}, nil, nil, "-" + errorDropped + "\r\n"},
		{scene{happens: "lost database"}, nil, nil, "-ERR DB index is out of range\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := one.scene
			if c.mode == "" {
				c.mode = "cluster"
			}
			s, o := c.play()
			same := func(got, want []submit) bool {
				for i := range min(len(got), len(want)) {
					if want[i].request == "" {
						want[i].request = got[i].request
					}
				}
				return slices.Equal(got, want)
			}
			if !same(o.sent, one.now) {
				t.Errorf("%+v: sent %+v, want %+v", c, o.sent, one.now)
			}
			time.Sleep(MinRetry)
			synctest.Wait()
			if sent := s.taken(); !same(sent, one.later) {
				t.Errorf("%+v: later sent %+v, want %+v", c, sent, one.later)
			}
			if got := s.got(); got != one.reply {
				t.Errorf("%+v: the client got %q, want %q", c, got, one.reply)
			}
			if n := s.postponed(); n > 0 != c.nowhere {
				t.Errorf("%+v: %d calls are postponed", c, n)
			}
			s.set(func() { s.timeout = -1 }) // ends the attempts
			time.Sleep(MaxRetry)
		})
	}
}

// TestPostponedUntilServed checks that a part whose slot nobody serves is sent as soon as a node
// does, and that it fails when time is over. Meanwhile the session sends nothing.
func TestPostponedUntilServed(t *testing.T) {
	for _, served := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSession()
			s.owner, s.timeout = nil, time.Second
			p := s.push(slot, words("GET", "k"))
			p.Unserved()
			pushed := make(chan *Part)
			go func() { pushed <- s.push(slot, words("GET", "k")) }()
			time.Sleep(500 * time.Millisecond)
			select {
			case <-pushed:
				t.Fatal("another call was let in")
			default:
			}
			if served {
				s.set(func() { s.owner = a })
			}
			<-pushed
			switch got, sent := s.got(), s.taken(); {
			case served && (len(sent) != 1 || sent[0].node != a || got != ""),
				!served && (len(sent) != 0 || got != "-"+ErrorUnserved+"\r\n"):
				t.Errorf("served %v: sent %+v, and the client got %q", served, sent, got)
			}
		})
	}
}

// TestPlansEnd checks that the last action of each plan is always possible.
func TestPlansEnd(t *testing.T) {
	for i, plan := range plans {
		if len(plan) == 0 || !slices.Contains([]action{pass, fail, drop, follow}, plan[len(plan)-1]) {
			t.Errorf("incident %d: %v", i, plan)
		}
	}
}
