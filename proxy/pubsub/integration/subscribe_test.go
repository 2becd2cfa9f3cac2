package pubsub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// subscribedCases are conversations in RESP2 subscribe mode in which Leash must answer like Redis.
var subscribedCases = []string{
	"SUBSCRIBE a; HELLO 3; PUBLISH a x; MULTI; DISCARD; INFO; EXEC; ACL WHOAMI; COMMAND; CONFIG GET x; QUIT now",
}

// subscriptionCases are those for both protocols.
var subscriptionCases = []string{
	"SUBSCRIBE a; SUBSCRIBE a; SUBSCRIBE b a c; UNSUBSCRIBE b; UNSUBSCRIBE b; UNSUBSCRIBE x a c y; PING",
	"PSUBSCRIBE a* a*; SUBSCRIBE a; PUNSUBSCRIBE a*; UNSUBSCRIBE; PUNSUBSCRIBE; SUNSUBSCRIBE",
	"SSUBSCRIBE {s}1; SSUBSCRIBE {s}1 {s}2; SUBSCRIBE a; SUNSUBSCRIBE {s}1; SUNSUBSCRIBE; UNSUBSCRIBE; PUNSUBSCRIBE p q; SUNSUBSCRIBE",
	"UNSUBSCRIBE; PUNSUBSCRIBE; SUNSUBSCRIBE; UNSUBSCRIBE x; PUNSUBSCRIBE x y; SUNSUBSCRIBE x",
	"SUBSCRIBE; PSUBSCRIBE; SSUBSCRIBE; SUBSCRIBE a; SUBSCRIBE; PING a b; PING; PING hello",
	"SUBSCRIBE a; GET; GET x; SET x 1; FOO; FOO bar; CLIENT FOO; CLIENT ID x; CLIENT; COMMAND COUNT x; SELECT 0; AUTH x; PUBSUB CHANNELS; DEL x",
	"SSUBSCRIBE a; GET x; SUNSUBSCRIBE a; GET nokey", "PSUBSCRIBE a; UNSUBSCRIBE; GET x; PUNSUBSCRIBE; GET nokey",
	"SUBSCRIBE a; PSUBSCRIBE b; SSUBSCRIBE c; RESET; GET nokey; SUBSCRIBE d; UNSUBSCRIBE d",
	"SUBSCRIBE a; QUIT", "SUBSCRIBE a; HELLO 2; GET x; UNSUBSCRIBE a; GET nokey",
	"subscribe A; UnSubscribe a; unsubscribe A",
	"SUBSCRIBE __keyevent@0__:set; PSUBSCRIBE *; PSUBSCRIBE __key*; UNSUBSCRIBE; PUNSUBSCRIBE *; PUNSUBSCRIBE __key*; GET nokey",
	"PUBSUB CHANNELS a b; PUBSUB FOO; PUBSUB; PUBSUB NUMPAT x; PUBSUB NUMSUB; PUBSUB SHARDNUMSUB; PUBLISH a; PUBLISH a b c; SPUBLISH a; PUBSUB CHANNELS; PUBSUB NUMSUB a b; PUBSUB NUMPAT; PUBSUB SHARDCHANNELS; PUBSUB HELP",
}

func TestSubscriptionsAsRedis(t *testing.T) {
	t.Parallel()
	redis, single, cluster := redistest.Start(t), redistest.Start(t),
		redistest.StartCluster(t, redistest.ClusterOptions{})
	for name, addrs := range map[string][]string{"standalone": {single.Addr}, "cluster": cluster.Addrs()} {
		l := proxytest.Start(t, addrs)
		for proto, cases := range map[string][]string{"2": slices.Concat(subscriptionCases, subscribedCases),
			"3": subscriptionCases} {
			for _, conversation := range cases {
				told := converse(t, redis.Addr, proto, conversation)
				got := converse(t, l.Addr, proto, conversation)
				for i := range max(len(told), len(got)) {
					if i >= len(told) || i >= len(got) || told[i] != got[i] {
						t.Errorf("%s, RESP%s: %s\nredis %q\nleash %q", name, proto, conversation,
							told[min(i, len(told)-1):], got[min(i, len(got)-1):])
						break
					}
				}
			}
		}
	}
}

// pipelinedCases are sent in one write.
var pipelinedCases = []string{
	"MULTI; SUBSCRIBE a b; PING; PING x; EXEC; PING; UNSUBSCRIBE a b; PING",
	"MULTI; SUBSCRIBE a; GET nokey; UNSUBSCRIBE a; EXEC; GET nokey",
	"SUBSCRIBE a; RESET; MULTI; PSUBSCRIBE a; DISCARD; GET nokey", "MULTI; SUBSCRIBE; EXEC; PING",
	"MULTI; SSUBSCRIBE a; SUNSUBSCRIBE; EXEC; PING",
	"SUBSCRIBE a; QUIT; PING",
	"GET nokey; SUBSCRIBE a; GET nokey; UNSUBSCRIBE a; GET nokey; PSUBSCRIBE a*; RESET; GET nokey",
	"CLIENT REPLY OFF; SUBSCRIBE a; UNSUBSCRIBE a; CLIENT REPLY ON; PING",
	"CLIENT REPLY SKIP; SUBSCRIBE a; UNSUBSCRIBE a; PING", "CLIENT REPLY SKIP; SUBSCRIBE; PING",
	"MULTI; UNSUBSCRIBE; PUNSUBSCRIBE x; EXEC; GET nokey",
}

func TestPipelinedSubscriptionsAsRedis(t *testing.T) {
	t.Parallel()
	redis, single, cluster := redistest.Start(t), redistest.Start(t), redistest.StartCluster(t)
	for name, addrs := range map[string][]string{"standalone": {single.Addr}, "cluster": cluster.Addrs()} {
		l := proxytest.Start(t, addrs)
		for _, conversation := range pipelinedCases {
			for _, hello := range []string{"", "HELLO 3; "} {
				raw := ""
				for _, line := range strings.Split(hello+conversation+"; QUIT", "; ") {
					raw += redistest.Command(strings.Fields(line)...)
				}
				told, got := proxytest.Exchange(t, redis.Addr, raw), proxytest.Exchange(t, l.Addr, raw)
				if hello != "" { // whose reply has ids and modes
					_, told, _ = strings.Cut(told, "modules")
					_, got, _ = strings.Cut(got, "modules")
				}
				if got != told {
					t.Errorf("%s: %s%s\nredis %q\nleash %q", name, hello, conversation, told, got)
				}
			}
		}
	}
}

// converse sends the commands of a conversation one by one and returns the replies to each.
func converse(t *testing.T, addr, proto, conversation string) (replies []string) {
	t.Helper()
	c := proxytest.Dial(t, addr)
	defer c.Close()
	if got := c.Reply(t, "HELLO", proto); got[0] == '-' {
		t.Fatalf("HELLO %s: %q", proto, got)
	}
	for i, line := range strings.Split(conversation, "; ") {
		marker := fmt.Sprintf("marker%d", i)
		if err := c.Send(redistest.Command(strings.Fields(line)...) + redistest.Command("PING", marker)); err != nil {
			t.Fatal(err)
		}
		said := line + " -> "
		for {
			frame, err := c.Read()
			if err != nil {
				return append(replies, said+"closed")
			}
			if strings.Contains(frame, marker) {
				break
			}
			if strings.HasPrefix(line, "HELLO") && frame[0] != '-' {
				frame = "welcome" // with ids and modes of its own
			}
			said += frame
		}
		replies = append(replies, said)
	}
	return replies
}
