package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// keysIn returns a key with a hash tag for each of so many slots, the first ones.
func keysIn(many int) []string {
	keys := make([]string, many)
	for i, left := 0, many; left > 0; i++ {
		tag := fmt.Sprintf("{%d}", i)
		if slot := int(slots.Of([]byte(tag))); slot < many && keys[slot] == "" {
			keys[slot] = tag
			left--
		}
	}
	return keys
}

// TestSlotsMoveUnderLoad checks that 1,000 slots can move under load. No client gets an error or a
// wrong reply, and each client's commands on a key keep their order.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	const slots = 1000
	tags := keysIn(slots)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	var commands atomic.Int64
	load := func(name string, work func(client *redistest.Client, round int) error) {
		working.Go(func() {
			client, err := redistest.Dial(l.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			client.Timeout = 20 * time.Second
			for round := 0; ctx.Err() == nil; round++ {
				if err := work(client, round); err != nil {
					t.Errorf("%s, round %d: %v", name, round, err)
					return
				}
				commands.Add(1)
			}
		})
	}
	for i := range 3 {
		load("pipelined INCR", pipelinedIncrements(tags, i))
		load("MSET MGET DEL", manyKeys(tags, i))
		load("several keys of a slot", keysOfOneSlot(tags, i))
	}
	from, to := c.Nodes[0], c.Nodes[1]
	if err := c.MoveSlots(from, to, slots); err != nil {
		t.Error(err)
	}
	cancel()
	working.Wait()
	t.Logf("%d rounds of load, topology changed %d times", commands.Load(),
		strings.Count(l.Logs.String(), "topology changed"))
	if commands.Load() < 1000 {
		t.Errorf("only %d rounds: no load", commands.Load())
	}
}

// pipelinedIncrements sends INCR in pipelines of 20, over all slots in turn. Each reply is one more
// than the last.
func pipelinedIncrements(tags []string, id int) func(*redistest.Client, int) error {
	counts := make(map[string]int)
	return func(client *redistest.Client, round int) error {
		var raw strings.Builder
		var keys []string
		for i := range 5 {
			key := fmt.Sprintf("%s:n%d", tags[(round*5+i)*7%len(tags)], id)
			for range 4 {
				raw.WriteString(redistest.Command("INCR", key))
				keys = append(keys, key)
			}
		}
		if err := client.Send(raw.String()); err != nil {
			return err
		}
		for _, key := range keys {
			counts[key]++
			got, err := client.Read()
			if wanted := fmt.Sprintf(":%d\r\n", counts[key]); got != wanted {
				return fmt.Errorf("INCR %s: got %q %w, want %q", key, got, err, wanted)
			}
		}
		return nil
	}
}

// manyKeys sets, gets and deletes keys of several slots.
func manyKeys(tags []string, id int) func(*redistest.Client, int) error {
	return func(client *redistest.Client, round int) error {
		mset, mget, del := []string{"MSET"}, []string{"MGET"}, []string{"DEL"}
		values := "*6\r\n"
		for i := range 6 {
			key := fmt.Sprintf("%s:m%d", tags[(round+i*37)%len(tags)], id)
			value := fmt.Sprintf("%06d", round)
			mset, mget, del = append(mset, key, value), append(mget, key), append(del, key)
			values += "$6\r\n" + value + "\r\n"
		}
		return transcript(client, [][]string{mset, mget, del, mget},
			[]string{"+OK\r\n", values, ":6\r\n", "*6\r\n" + strings.Repeat("$-1\r\n", 6)})
	}
}

// keysOfOneSlot runs commands over several keys of one slot. Redis answers them with TRYAGAIN while
// only some of the keys have moved.
func keysOfOneSlot(tags []string, id int) func(*redistest.Client, int) error {
	return func(client *redistest.Client, round int) error {
		tag := tags[round%len(tags)]
		a, b, c := fmt.Sprintf("%s:a%d", tag, id), fmt.Sprintf("%s:b%d", tag, id), fmt.Sprintf("%s:c%d", tag, id)
		for _, step := range [][2]string{
			{redistest.Command("MSET", a, "1", b, "2"), "+OK\r\n"},
			{redistest.Command("MGET", a, c, b), "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n"},
			{redistest.Command("EXISTS", a, b, c), ":2\r\n"},
			{redistest.Command("DEL", a, b), ":2\r\n"},
		} {
			if err := client.Send(step[0]); err != nil {
				return err
			}
			if got, err := client.Read(); got != step[1] {
				return fmt.Errorf("%q: got %q %w, want %q", step[0], got, err, step[1])
			}
		}
		return nil
	}
}

// transcript pipelines commands and compares the replies.
func transcript(client *redistest.Client, commands [][]string, replies []string) error {
	var raw strings.Builder
	for _, args := range commands {
		raw.WriteString(redistest.Command(args...))
	}
	if err := client.Send(raw.String()); err != nil {
		return err
	}
	for i, wanted := range replies {
		if got, err := client.Read(); got != wanted {
			return fmt.Errorf("%q: got %q %w, want %q", commands[i], got, err, wanted)
		}
	}
	return nil
}

// TestInTheMiddleOfAMigration covers a slot with some keys moved and the others not.
func TestInTheMiddleOfAMigration(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	from, to := c.Nodes[0], c.Nodes[1]
	tag := proxytest.KeyOn(t, c, from, "t")
	slot := int(slots.Of([]byte(tag)))
	here, there, none := "{"+tag+"}here", "{"+tag+"}there", "{"+tag+"}none"
	client.Want(t, "+OK\r\n", "MSET", here, "1", there, "2")
	move, err := c.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := move.MoveKey(there); err != nil {
		t.Fatal(err)
	}
	both := "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n"
	client.Want(t, "$1\r\n1\r\n", "GET", here)
	client.Want(t, "$1\r\n2\r\n", "GET", there)
	client.Want(t, "$-1\r\n", "GET", none)
	client.Want(t, both, "MGET", here, there, none)
	client.Want(t, ":2\r\n", "EXISTS", here, there, none)
	client.Want(t, ":2\r\n", "TOUCH", here, there)
	client.Want(t, "+OK\r\n", "MSET", here, "1", there, "2")
	// The slot is known to move, so no command overtakes one that may be split.
	raw := ""
	for range 20 {
		raw += redistest.Command("MSET", here, "old", there, "old") + redistest.Command("SET", there, "2") +
			redistest.Command("SET", here, "1") + redistest.Command("MGET", here, there, none)
	}
	if err := client.Send(raw); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		for _, wanted := range []string{"+OK\r\n", "+OK\r\n", "+OK\r\n", both} {
			if got, err := client.Read(); got != wanted {
				t.Fatalf("got %q %v, want %q", got, err, wanted)
			}
		}
	}
	// A command that cannot be split waits, and then gets an error.
	start := time.Now()
	if got := client.Reply(t, "SUNIONSTORE", here, there, none); !strings.HasPrefix(got, "-TRYAGAIN ") {
		t.Errorf("got %q", got)
	}
	if d := time.Since(start); d < l.Upstream.RedirectTimeout() {
		t.Errorf("gave up after %v", d)
	}
	if err := move.Finish(); err == nil {
		t.Log("finished with a key left behind")
	}
	client.Want(t, ":2\r\n", "DEL", here, there, none)
}

// TestAskInAPipeline checks that the reply to ASKING reaches no client.
func TestAskInAPipeline(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	key := proxytest.KeyOn(t, c, c.Nodes[0], "k")
	client.Want(t, "+OK\r\n", "SET", key, "0")
	move, err := c.BeginMove(int(slots.Of([]byte(key))), c.Nodes[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := move.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	const n = 500
	if err := client.Send(strings.Repeat(redistest.Command("INCR", key), n)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got, err := client.Read(); got != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("reply %d: %q %v", i, got, err)
		}
	}
	if err := move.Finish(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, fmt.Sprintf(":%d\r\n", n+1), "INCR", key)
}
