package tracking_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// redirectScenes are steps of a source (s), the target of its redirection (t) and another client
// (o). T and S stand for the ids of the first two. "t ?" reads a frame, and "s FLAGS" is what
// CLIENT INFO shows about tracking. Each scene ends with a PING of the target, which shows that no
// other frame came.
var redirectScenes = map[string]string{
	"plain":                           "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|s CLIENT GETREDIR|s CLIENT TRACKINGINFO|s FLAGS|o SET a 1|t ?",
	"a target in RESP3":               "t HELLO 3|s CLIENT TRACKING ON REDIRECT T|s GET a|o SET a 1|t ?|s GET a|o FLUSHALL|t ?",
	"all keys":                        "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|o FLUSHALL|t ?",
	"several keys":                    "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s MGET a b|o MSET a 1 b 2|t ?|t ?",
	"prefixes":                        "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T BCAST PREFIX a: PREFIX b:|s CLIENT TRACKINGINFO|s FLAGS|o SET c:1 1|o SET b:1 1|t ?",
	"prefixes add up":                 "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T BCAST PREFIX a|s CLIENT TRACKING ON REDIRECT T BCAST PREFIX b|s CLIENT TRACKING ON REDIRECT T BCAST PREFIX ab|s CLIENT TRACKINGINFO|o SET a 1|t ?|o SET b 1|t ?",
	"prefixes before and with":        "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON BCAST PREFIX a|s CLIENT TRACKING ON REDIRECT T BCAST PREFIX b|s CLIENT TRACKINGINFO|o SET a 1|t ?|o SET b 1|t ?",
	"a prefix called redirect":        "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON BCAST PREFIX redirect REDIRECT T|s CLIENT TRACKINGINFO|o SET redirect 1|t ?",
	"opt in":                          "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON OPTIN REDIRECT T|s GET a|s CLIENT CACHING YES|s GET b|o SET a 1|o SET b 1|t ?",
	"opt out":                         "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T OPTOUT|s CLIENT CACHING NO|s GET a|s GET b|o SET a 1|o SET b 1|t ?",
	"opt in no more":                  "s CLIENT TRACKING ON OPTIN REDIRECT T|s CLIENT TRACKING ON OPTOUT REDIRECT T|s CLIENT TRACKING ON REDIRECT T|s CLIENT CACHING YES|s CLIENT TRACKINGINFO",
	"own writes not told":             "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T NOLOOP|s GET a|s GET b|s SET a 1|o SET b 1|t ?",
	"own writes told":                 "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|s SET a 1|t ?",
	"off again":                       "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|s CLIENT TRACKING OFF|s CLIENT GETREDIR|s CLIENT TRACKINGINFO|o SET a 1",
	"on once more":                    "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|s CLIENT TRACKING ON REDIRECT T|o SET a 1|t ?",
	"on before without REDIRECT":      "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON|s GET a|s CLIENT TRACKING ON REDIRECT T|o SET a 1|t ?",
	"to itself again":                 "s HELLO 3|s CLIENT TRACKING ON REDIRECT T|s GET a|s CLIENT TRACKING ON|s CLIENT GETREDIR|o SET a 1|s ?",
	"the source is the target":        "s HELLO 3|s CLIENT TRACKING ON REDIRECT S|s CLIENT GETREDIR|s GET a|o SET a 1|s ?|s PING",
	"the source is a RESP2 target":    "s CLIENT TRACKING ON REDIRECT S|s GET a|s SUBSCRIBE __redis__:invalidate|o SET a 1|s ?|s PING",
	"a transaction":                   "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s MULTI|s GET a|s EXEC|o SET a 1|t ?",
	"a target that is no subscriber":  "s CLIENT TRACKING ON REDIRECT T|s GET a|o SET a 1|s GET a|t SUBSCRIBE other|o SET a 2|t ?",
	"a target that stops to listen":   "t SUBSCRIBE __redis__:invalidate|s CLIENT TRACKING ON REDIRECT T|s GET a|t UNSUBSCRIBE|o SET a 1",
	"a target that caches itself":     "t HELLO 3|t CLIENT TRACKING ON|t GET b|s CLIENT TRACKING ON REDIRECT T|s GET a|o SET a 1|t ?|o SET b 1|t ?",
	"a target that is gone":           "t SUBSCRIBE __redis__:invalidate|s HELLO 3|s CLIENT TRACKING ON REDIRECT T|s GET a|t QUIT|o SET a 1|s ?|s CLIENT TRACKINGINFO|s FLAGS|s CLIENT GETREDIR|s CLIENT TRACKING ON|s CLIENT TRACKINGINFO|s GET a|o SET a 2|s ?",
	"a target that is gone and BCAST": "t SUBSCRIBE __redis__:invalidate|s HELLO 3|s CLIENT TRACKING ON BCAST REDIRECT T|t QUIT|o SET a 1|s ?|s CLIENT TRACKINGINFO",
	"what is wrong": "s CLIENT TRACKING ON REDIRECT 999999|s CLIENT TRACKING ON REDIRECT x|s CLIENT TRACKING ON REDIRECT|s CLIENT TRACKING ON REDIRECT T REDIRECT T|s CLIENT TRACKING ON OPTIN OPTOUT REDIRECT T|" +
		"s CLIENT TRACKING ON PREFIX a REDIRECT T|s CLIENT TRACKING ON ODD REDIRECT 999999|s CLIENT TRACKING ON REDIRECT T ODD|s CLIENT TRACKING OFF REDIRECT 999999|s CLIENT TRACKING OFF REDIRECT T|s CLIENT TRACKING ON REDIRECT T PREFIX|s CLIENT GETREDIR",
	"another mode": "s CLIENT TRACKING ON REDIRECT T|s CLIENT TRACKING ON BCAST REDIRECT T|s CLIENT GETREDIR",
}

// TestTrackingRedirected checks that replies and pushes with REDIRECT are those of Redis.
func TestTrackingRedirected(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := proxytest.Start(t, []string{s.Addr})
	for name, scene := range redirectScenes {
		redis, leash := redirected(t, s.Addr, scene, nil), redirected(t, l.Addr, scene, l)
		if !slices.Equal(redis, leash) {
			t.Errorf("%s:\nRedis %q\nLeash %q", name, redis, leash)
		}
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// redirectIDs match the places where replies and pushes name a client.
var redirectIDs = regexp.MustCompile(`(^:|redirect\r\n:|redir-broken\r\n:|redir=)\d+`)

// redirected plays a scene and returns every frame, with names for the ids.
func redirected(t *testing.T, addr, scene string, l *proxytest.Leash) (all []string) {
	t.Helper()
	clients, ids := make(map[string]*redistest.TestClient), make(map[string]string)
	for _, name := range []string{"s", "t", "o"} {
		clients[name] = redistest.Connect(t, addr)
		ids[name] = strings.Trim(clients[name].Do("CLIENT", "ID"), ":\r\n")
		defer clients[name].Close()
	}
	clients["o"].Want("+OK\r\n", "FLUSHALL")
	gone := false
	for step := range strings.SplitSeq(scene, "|") {
		name, text, _ := strings.Cut(step, " ")
		words, c := strings.Fields(text), clients[name]
		for i, word := range words {
			if word == "S" || word == "T" {
				words[i] = ids[strings.ToLower(word)]
			}
		}
		reply := ""
		switch text {
		case "?":
			reply = c.Read()
		case "FLAGS":
			reply = strings.Join(regexp.MustCompile(`(flags|redir)=\S+`).FindAllString(c.Do("CLIENT", "INFO"), -1), " ")
		case "HELLO 3":
			c.Do(words...)
		default:
			reply = c.Do(words...)
		}
		reply = redirectIDs.ReplaceAllStringFunc(reply, func(found string) string {
			for who, id := range ids {
				if before, ok := strings.CutSuffix(found, id); ok &&
					(before[len(before)-1] == ':' || before[len(before)-1] == '=') {
					return before + who
				}
			}
			return found
		})
		all = append(all, reply)
		if text == "QUIT" {
			gone = true
			c.WantClosed()
			proxytest.Eventually(t, "the target has gone", func() bool { return l == nil || l.Clients() < 3 })
		}
	}
	if gone {
		return all
	}
	return append(all, clients["t"].Do("PING"))
}

// TestTrackingRedirectedFromALostConnection checks that the target is told that nothing is valid
// when Redis closes a connection of an idle source.
func TestTrackingRedirectedFromALostConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := proxytest.Start(t, []string{s.Addr})
	admin := redistest.Connect(t, s.Addr)
	clientsOf := regexp.MustCompile(`id=(\d+) .* flags=(\S+) .* redir=(\d+)`)
	for _, reader := range []bool{true, false} {
		source, target := redistest.Connect(t, l.Addr), redistest.Connect(t, l.Addr)
		id := strings.Trim(target.Do("CLIENT", "ID"), ":\r\n")
		target.Do("SUBSCRIBE", "__redis__:invalidate")
		source.Want("+OK\r\n", "CLIENT", "TRACKING", "ON", "REDIRECT", id)
		source.Want("$-1\r\n", "GET", "k")
		found := clientsOf.FindStringSubmatch(admin.Do("CLIENT", "LIST"))
		if found == nil {
			t.Fatal("Redis has no client that redirects")
		}
		kill := found[1]
		if !reader {
			kill = found[3]
		}
		admin.Want(":1\r\n", "CLIENT", "KILL", "ID", kill)
		target.WantRead(invalidateMessage + "$-1\r\n")
		source.Want("$-1\r\n", "GET", "k") // on a new connection
		admin.Want("+OK\r\n", "SET", "k", "v")
		admin.Want(":1\r\n", "DEL", "k")
		told := invalidateMessage + "*1\r\n$1\r\nk\r\n"
		for reply := target.Read(); reply != told; reply = target.Read() {
			if reply != invalidateMessage+"$-1\r\n" {
				t.Fatalf("got %q", reply)
			}
		}
		source.Close()
		target.Close()
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	}
}

// TestTrackingRedirectedInACluster checks that invalidations of all nodes reach the target before
// the reply to its PING, and that the source is told when the target is gone.
func TestTrackingRedirectedInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	source, target, other := redistest.Connect(t, l.Addr), redistest.Connect(t, l.Addr), redistest.Connect(t, l.Addr)
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
	proxytest.Eventually(t, "the target has gone", func() bool { return l.Clients() == 2 })
	other.Want("+OK\r\n", "SET", key, "w")
	source.Timeout = 10 * time.Second
	source.WantRead(">2\r\n$21\r\ntracking-redir-broken\r\n:" + id + "\r\n")
	if info := source.Do("CLIENT", "TRACKINGINFO"); !strings.Contains(info, "broken_redirect") ||
		!strings.Contains(info, ":"+id+"\r\n") {
		t.Errorf("TRACKINGINFO says %q", info)
	}
}

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// TestMessagesAndRedirectedInvalidations checks that a target that is also subscribed to a
// channel gets all messages and all invalidations, even many at once.
func TestMessagesAndRedirectedInvalidations(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := proxytest.Start(t, []string{s.Addr})
	source, target := redistest.Connect(t, l.Addr), redistest.Connect(t, l.Addr)
	id := strings.Trim(target.Do("CLIENT", "ID"), ":\r\n")
	target.Do("SUBSCRIBE", "__redis__:invalidate")
	target.Do("SUBSCRIBE", "news")
	source.Want("+OK\r\n", "CLIENT", "TRACKING", "ON", "BCAST", "REDIRECT", id)
	const many = 3000
	for _, command := range []string{redistest.Command("PUBLISH", "news", "x"), redistest.Command("SET", "k", "v")} {
		direct := redistest.Connect(t, s.Addr)
		go func() {
			for range many { // one at a time, for Redis tells a key once a round of its loop
				if err := direct.Client.Send(command); err != nil {
					return
				}
				if _, err := direct.Client.Read(); err != nil {
					return
				}
			}
		}()
	}
	news, told := 0, 0
	for news < many || told < many {
		if frame := target.Read(); strings.Contains(frame, "news") {
			news++
		} else {
			told++
		}
	}
}
