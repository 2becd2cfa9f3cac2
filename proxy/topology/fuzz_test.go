package topology

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leash/proxy/slots"
)

// FuzzSlotsReply reads replies to CLUSTER SLOTS of any shape. The slots and addresses that come out
// can be used as they are.
func FuzzSlotsReply(f *testing.F) {
	for _, reply := range []string{
		"[ 0 16383 [ 127.0.0.1 7000 id ] ]", "[ 0 5 [ nil 7000 id [ ] ] [ empty 7001 ] ]",
		"[ 5 7 [ ? 1 id [ ip ::1 ] ] ] [ 8 8 [ ? 2 ] ]", "[ -1 7 [ h 1 ] ] [ 7 16384 [ h 1 ] ]", "1 [ 1 2 [ h 65536 ] ]",
		"[ 3 2 [ h 1 ] ] [ 1 2 h ] [ 1 2 [ 1 1 ] ] [ 1 2 [ h h ] [ h 2 ] ]", "[ 1 2 [ a:b 1 ] [ ? 3 id [ ip ] ] [ ] ]", "",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Fields(text)
		for _, r := range parseSlots(listOf(&words, 0), "10.0.0.1:7000") {
			if r.First < 0 || r.First > r.Last || r.Last >= slots.Count || len(r.Addrs) == 0 {
				t.Errorf("%q: %+v", text, r)
			}
			for _, addr := range r.Addrs {
				host, port, err := net.SplitHostPort(addr)
				if n, bad := strconv.Atoi(port); err == nil && (host == "" || host == "?" || bad != nil || n < 1 || n > 65535) {
					t.Errorf("%q: address %q", text, addr)
				}
			}
		}
	})
}

// listOf makes a list of words up to the one that closes it. Numbers become integers.
func listOf(words *[]string, depth int) (list []any) {
	for len(*words) > 0 {
		word := (*words)[0]
		*words = (*words)[1:]
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case word == "]":
			return list
		case word == "[" && depth < 10:
			list = append(list, listOf(words, depth+1))
		case word == "nil":
			list = append(list, nil)
		case word == "empty":
			list = append(list, "")
		case err == nil:
			list = append(list, n)
		default:
			list = append(list, word)
		}
	}
	return list
}

// FuzzClusterNodes reads replies to CLUSTER NODES of any text. An address that can be dialled stays
// as it is. Working nodes and slotless masters are always among those that can be asked.
func FuzzClusterNodes(f *testing.F) {
	for _, nodes := range []string{
		"07c3 127.0.0.1:30004@31004,host-4 slave e7d1 0 1426238317239 4 connected\n" +
			"67ed 127.0.0.1:30002@31002,,shard-id=6 master - 0 1426238316232 2 connected 5461-10922\n" +
			"e7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460 [93->-292f]\n",
		"a ?:7000@17000,name master - 0 0 0 connected\nb 1.2.3.4:5 master,fail - 0 0 0 connected",
		"c ::1:7000@17000 master - 0 0 0 disconnected\nd :0@0 master,noaddr - 0 0 0 connected\n",
		"x y z", "\n\n", "a , slave b 0 0 0 connected", "a :@ master - 0 0 0 connected [", "a\u00a0b c d",
	} {
		f.Add(nodes)
	}
	const asked = "10.0.0.1:7000"
	slotOwner := []any{[]any{int64(0), int64(5), []any{"node.host", int64(7000)}}}
	f.Fuzz(func(t *testing.T, nodes string) {
		lines := strings.Count(nodes, "\n") + 1
		for _, names := range []bool{false, true} {
			l, err := ParseCluster(slotOwner, nodes, asked, names)
			if most := 2*lines + 1; err != nil || len(l.Peers) > most {
				t.Errorf("%q: %d addresses of %d lines, %v", nodes, len(l.Peers), lines, err)
			}
			for _, addr := range l.Peers {
				if again := completeAddr(addr, asked); isAddr(addr) && again != addr {
					t.Errorf("%q: address %q becomes %q", nodes, addr, again)
				}
			}
			working := l.Slotless
			if !names {
				working = append(working, l.Healthy...)
			}
			for _, addr := range working {
				if !slices.Contains(l.Peers, addr) {
					t.Errorf("%q: %q works, and cannot be asked", nodes, addr)
				}
			}
			if l.Replicas > strings.Count(nodes, "slave") {
				t.Errorf("%q: %d replicas", nodes, l.Replicas)
			}
		}
	})
}

// FuzzSnapshot checks that ranges of slots become a snapshot with the same owner of each slot.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte{0, 0, 255, 255, 1})
	f.Add([]byte{0, 1, 0, 1, 0, 0, 2, 0, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, owner [slots.Count]string
		var l Layout
		for b = b[:min(len(b), 50)]; len(b) >= 5; b = b[5:] {
			first, last := (int(b[0])<<8|int(b[1]))%slots.Count, (int(b[2])<<8|int(b[3]))%slots.Count
			addr := "10.0.0.1:" + strconv.Itoa(7000+int(b[4]%4))
			l.Ranges = append(l.Ranges, Range{slots.Slot(first), slots.Slot(last), []string{addr}})
			for slot := first; slot <= last; slot++ {
				owner[slot] = addr
			}
		}
		s := l.Snapshot(nodesOf(), false)
		for slot := range got {
			if n := s.Node(slots.Slot(slot)); n != nil {
				got[slot] = n.Addr
			}
		}
		if got != owner {
			t.Errorf("%v: some slots have another owner", l.Ranges)
		}
	})
}
