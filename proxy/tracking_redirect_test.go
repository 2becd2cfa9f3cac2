package proxy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// redirectScene is what the source says after CLIENT TRACKING ON REDIRECT, what a third client does then, and how many frames the
// target is to get of it. T is the target's id.
type redirectScene struct {
	name   string
	source []string
	others []string
	target int
	resp3  bool // the target's protocol
}

var redirectScenes = []redirectScene{
	{"plain", []string{"CLIENT TRACKING ON REDIRECT T", "GET a", "CLIENT GETREDIR", "CLIENT TRACKINGINFO"}, []string{"SET a 1"}, 1, false},
	{"a target in RESP3", []string{"CLIENT TRACKING ON REDIRECT T", "GET a"}, []string{"SET a 1"}, 1, true},
	{"all keys", []string{"CLIENT TRACKING ON REDIRECT T", "GET a"}, []string{"FLUSHALL"}, 1, false},
	{"prefixes", []string{"CLIENT TRACKING ON REDIRECT T BCAST PREFIX a: PREFIX b:", "CLIENT TRACKINGINFO"}, []string{"SET c:1 1", "SET b:1 1"}, 1, false},
	{"options first", []string{"CLIENT TRACKING ON BCAST PREFIX redirect REDIRECT T", "CLIENT TRACKINGINFO"}, []string{"SET redirect 1"}, 1, false},
	{"opt in", []string{"CLIENT TRACKING ON OPTIN REDIRECT T", "GET a", "CLIENT CACHING YES", "GET b"}, []string{"SET a 1", "SET b 1"}, 1, false},
	{"opt out", []string{"CLIENT TRACKING ON REDIRECT T OPTOUT", "CLIENT CACHING NO", "GET a", "GET b"}, []string{"SET a 1", "SET b 1"}, 1, false},
	{"own writes", []string{"CLIENT TRACKING ON REDIRECT T NOLOOP", "GET a", "GET b", "SET a 1"}, []string{"SET b 1"}, 1, false},
	{"own writes told", []string{"CLIENT TRACKING ON REDIRECT T", "GET a", "SET a 1"}, nil, 1, false},
	{"off again", []string{"CLIENT TRACKING ON REDIRECT T", "GET a", "CLIENT TRACKING OFF", "CLIENT GETREDIR", "CLIENT TRACKINGINFO"}, []string{"SET a 1"}, 0, false},
	{"refused", []string{"CLIENT TRACKING ON REDIRECT 999999", "CLIENT TRACKING ON REDIRECT x", "CLIENT TRACKING ON REDIRECT",
		"CLIENT TRACKING ON REDIRECT T REDIRECT T", "CLIENT TRACKING ON OPTIN OPTOUT REDIRECT T", "CLIENT TRACKING ON PREFIX a REDIRECT T", "CLIENT GETREDIR"}, nil, 0, false},
	{"switched", []string{"CLIENT TRACKING ON REDIRECT T", "CLIENT TRACKING ON BCAST REDIRECT T", "CLIENT GETREDIR"}, nil, 0, false},
	{"to itself again", []string{"CLIENT TRACKING ON REDIRECT T", "CLIENT TRACKING ON", "CLIENT GETREDIR", "GET a"}, []string{"SET a 1"}, 0, false},
}

// TestTrackingRedirected: what is answered and told with REDIRECT is what Redis answers and tells.
func TestTrackingRedirected(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := startLeash(t, []string{s.Addr})
	for _, scene := range redirectScenes {
		var got [2][]string
		for i, addr := range []string{s.Addr, l.addr} {
			got[i] = redirected(t, addr, scene)
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s:\nRedis %q\nLeash %q", scene.name, got[0], got[1])
		}
	}
}

func redirected(t *testing.T, addr string, scene redirectScene) (all []string) {
	t.Helper()
	source, target, other := redistest.Connect(t, addr), redistest.Connect(t, addr), redistest.Connect(t, addr)
	other.Want("+OK\r\n", "FLUSHALL")
	if scene.resp3 {
		target.Do("HELLO", "3")
	}
	id := strings.Trim(target.Do("CLIENT", "ID"), ":\r\n")
	if !scene.resp3 {
		target.Do("SUBSCRIBE", "__redis__:invalidate")
	}
	for _, command := range scene.source {
		words := strings.Fields(command)
		for i, word := range words {
			if word == "T" {
				words[i] = id
			}
		}
		reply := source.Do(words...)
		if strings.Contains(command, "GETREDIR") || strings.Contains(command, "INFO") {
			reply = strings.ReplaceAll(reply, ":"+id+"\r\n", ":T\r\n")
		}
		all = append(all, reply)
	}
	for _, command := range scene.others {
		other.Do(strings.Fields(command)...)
	}
	for range scene.target {
		all = append(all, target.Read())
	}
	if scene.resp3 { // and nothing else comes
		return append(all, target.Do("PING"))
	}
	return append(all, target.Do("PING", "x"))
}

// TestTrackingRedirectedInACluster: invalidations of all nodes reach the target, before the reply to its PING, and a target that is
// gone is told of.
func TestTrackingRedirectedInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, cluster.Addrs())
	source, target, other := redistest.Connect(t, l.addr), redistest.Connect(t, l.addr), redistest.Connect(t, l.addr)
	source.Do("HELLO", "3")
	id := strings.Trim(target.Do("CLIENT", "ID"), ":\r\n")
	target.Do("SUBSCRIBE", "__redis__:invalidate")
	source.Want("+OK\r\n", "CLIENT", "TRACKING", "ON", "REDIRECT", id)
	for range 50 {
		for _, slot := range []int{1, 8000, 16000} {
			key := redistest.KeyIn(slot, "k")
			source.Do("GET", key)
			other.Want("+OK\r\n", "SET", key, "v")
			target.Send(redistest.Command("PING"))
			target.WantRead(invalidateMessage + "*1\r\n" + bulk(key))
			target.WantRead("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
		}
	}
	key := redistest.KeyIn(1, "k")
	source.Do("GET", key)
	target.Close()
	eventually(t, "the target has gone", func() bool { return l.sessionCount() == 2 })
	other.Want("+OK\r\n", "SET", key, "w")
	source.Timeout = 10 * time.Second
	source.WantRead(">2\r\n$21\r\ntracking-redir-broken\r\n:" + id + "\r\n")
	if info := source.Do("CLIENT", "TRACKINGINFO"); !strings.Contains(info, "broken_redirect") || !strings.Contains(info, ":"+id+"\r\n") {
		t.Errorf("TRACKINGINFO says %q", info)
	}
}

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }
