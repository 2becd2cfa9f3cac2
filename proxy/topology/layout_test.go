package topology

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// slotsReply makes a reply to CLUSTER SLOTS from words: "[" and "]" enclose lists.
func slotsReply(text string) []any {
	words := strings.Fields(text)
	return listOf(&words, 0)
}

func TestParseClusterSlots(t *testing.T) {
	for reply, want := range map[string][]Range{
		"[ 0 16383 [ 127.0.0.1 7000 id ] ]": {{0, 16383, []string{"127.0.0.1:7000"}}},
		"[ 0 5 [ m 1 id ] [ r 2 id ] ]":     {{0, 5, []string{"m:1", "r:2"}}},
		"[ 0 5 [ nil 7000 id [ ] ] ]":       {{0, 5, []string{"10.0.0.1:7000"}}},
		"[ 0 5 [ empty 7000 id ] ]":         {{0, 5, []string{"10.0.0.1:7000"}}},
		"[ 0 5 [ ? 1 id [ ip ::1 ] ] ]":     {{0, 5, []string{"[::1]:1"}}},
		"[ 0 5 [ ? 1 id ] ]":                {{0, 5, []string{"10.0.0.1:1"}}},
		"[ 0 5 [ node.host 1 id ] ]":        {{0, 5, []string{"node.host:1"}}},
		// one entry is wrong, and the others count
		"[ 7 16384 [ h 1 ] ] [ 0 1 [ h 1 ] ]": {{0, 1, []string{"h:1"}}},
		"[ -1 7 [ h 1 ] ] [ 0 1 [ h 1 ] ]":    {{0, 1, []string{"h:1"}}},
		"[ 3 2 [ h 1 ] ] [ 0 1 [ h 1 ] ]":     {{0, 1, []string{"h:1"}}},
		"[ 0 1 ] 7 [ 0 1 [ h 1 ] ]":           {{0, 1, []string{"h:1"}}},
		"[ a b [ h 1 ] ] [ 0 1 [ h 1 ] ]":     {{0, 1, []string{"h:1"}}},
		"[ 0 1 [ h 1 ] [ r 0 ] [ r ] ]":       {{0, 1, []string{"h:1"}}},
		// without its master, an entry is useless
		"[ 0 1 [ h 65536 ] [ r 1 ] ]": nil, "[ 0 1 [ h x ] ]": nil, "[ 0 1 h ]": nil, "[ 0 16384 [ h 1 ] ]": nil, "": nil,
	} {
		l, err := ParseCluster(slotsReply(reply), "", "10.0.0.1:7000", false)
		if !reflect.DeepEqual(l.Ranges, want) || errors.Is(err, ErrNotCovered) != (want == nil) {
			t.Errorf("%q: got %v, %v", reply, l.Ranges, err)
		}
	}
	if _, err := ParseCluster(slotsReply("[ 0 5 [ nil 7000 ] ]"), "", "", false); !errors.Is(err, ErrNotCovered) {
		t.Errorf("a node without any address: %v", err)
	}
}

const nodesReply = "07c3 127.0.0.1:30004@31004,host4 slave e7d1 0 1426238317239 4 connected\n" +
	"67ed 127.0.0.1:30002@31002,,shard-id=1 master - 0 1426238316232 2 connected 5461-10922\n" +
	"292f :0@0 master,noaddr - 0 0 3 disconnected\n" +
	"5fe2 127.0.0.1:30005@31005 slave,fail e7d1 0 0 1 connected\n" +
	"b1c0 127.0.0.1:30006@31006,host6 master - 0 0 0 connected [7-<-e7d1]\n" +
	"b1c1 127.0.0.1:30007@31007 master - 0 0 0 disconnected\n" +
	"b1c2 127.0.0.1:30008@31008 handshake - 0 0 0 connected\n" +
	"too short a line\n" +
	"e7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460\n"

func TestParseClusterNodes(t *testing.T) {
	owners := slotsReply("[ 0 5460 [ 10.0.0.1 30001 ] ] [ 5461 10922 [ other 30009 ] ]")
	l, err := ParseCluster(owners, nodesReply, "10.0.0.1:30001", false)
	if err != nil {
		t.Fatal(err)
	}
	want := Layout{
		Cluster: true, Ranges: l.Ranges, Replicas: 1,
		IDs:      []string{"07c3", "67ed", "292f", "5fe2", "b1c0", "b1c1", "e7d1"},
		Slotless: []string{"127.0.0.1:30006"},
		Peers: []string{"127.0.0.1:30004", "host4:30004", "127.0.0.1:30002", "127.0.0.1:30005", "127.0.0.1:30006",
			"host6:30006", "127.0.0.1:30007", "127.0.0.1:30008", "10.0.0.1:30001", "other:30009"},
		Healthy: []string{"127.0.0.1:30004", "host4:30004", "127.0.0.1:30002", "127.0.0.1:30006", "host6:30006",
			"10.0.0.1:30001"},
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got\n%+v, want\n%+v", l, want)
	}
	members := slices.Sorted(maps.Keys(l.Members()))
	if !slices.Equal(members, slices.Sorted(slices.Values(append(l.Healthy, "other:30009")))) {
		t.Errorf("members %q", members)
	}
	if l, _ := ParseCluster(owners, "", "10.0.0.1:30001", false); l.Replicas != -1 {
		t.Errorf("without CLUSTER NODES: %d replicas", l.Replicas)
	}
}

// TestNames checks that nodes of a cluster whose masters have host names are reached only by these,
// if names are wanted.
func TestNames(t *testing.T) {
	named := slotsReply("[ 0 5 [ host1 30001 ] ]")
	l, _ := ParseCluster(named, nodesReply, "10.0.0.1:30001", true)
	if slices.Contains(l.Peers, "127.0.0.1:30004") || !slices.Contains(l.Peers, "host4:30004") ||
		!slices.Equal(l.Slotless, []string{"host6:30006"}) {
		t.Errorf("peers %q, slotless %q", l.Peers, l.Slotless)
	}
	l, _ = ParseCluster(slotsReply("[ 0 5 [ 10.0.0.1 30001 ] ]"), nodesReply, "10.0.0.1:30001", true)
	if !slices.Contains(l.Peers, "127.0.0.1:30004") || !slices.Equal(l.Slotless, []string{"127.0.0.1:30006"}) {
		t.Errorf("without names: peers %q, slotless %q", l.Peers, l.Slotless)
	}
}

func TestConfirms(t *testing.T) {
	node := nodesOf()
	s := twoMasters().Snapshot(node, false)
	for owned, want := range map[string]bool{
		" 0-99": true, " 0-49 50-98 99": true, " 99 0-98": true, " 0-98": false, " 0-100": false, "": false,
		" 0-99 300": false, " 0-99 [5->-67ed]": false, " 0-99 [5-<-67ed]": false, " 0-16384": false, " 0-x": false,
	} {
		nodes := "67ed m2:1@2 master - 0 0 0 connected 100-199\ne7d1 :1@2 myself,master - 0 0 1 connected" + owned + "\n"
		got, err := s.Confirms(node("m1:1"), nodes)
		if got != want || err != nil {
			t.Errorf("%q: got %v, %v", owned, got, err)
		}
	}
	for _, nodes := range []string{"", "x", "67ed m2:1@2 master - 0 0 0 connected 100-199 [5-<-67ed]\n"} {
		if got, err := s.Confirms(node("m1:1"), nodes); got || err == nil {
			t.Errorf("%q: got %v, %v", nodes, got, err)
		}
	}
}

func TestAddr(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:7001": "127.0.0.1:7001", ":7001": "10.0.0.1:7001", "?:7001": "10.0.0.1:7001",
		"fd00::1:7001": "[fd00::1]:7001", "[fd00::1]:7001": "[fd00::1]:7001", "redis.host:7001": "redis.host:7001",
		"": "", "h": "", "h:": "", "h:0": "", "h:65536": "", "h:x": "", strings.Repeat("h", 256) + ":1": "",
	} {
		got, ok := Addr(text, "10.0.0.1:7000")
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, ok, want)
		}
	}
}
