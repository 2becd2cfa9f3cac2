package lockcmd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestMasterDies: A master dies. Its holds continue on its replica, and the other masters serve
// their own keys without interruption.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := dialCluster(t, cluster.Addrs()...)
	// The waiter attempts when its subscription moves to another node. If the kill interrupts that
	// attempt, it ends in LOCKTIMEOUT after the upstream timeout: longer here than a failover.
	s := leash(t, rdb, Config{WatchdogTimeout: 15 * time.Second, UpstreamTimeout: time.Minute}, slowRetries)
	impatient := leash(t, rdb, Config{WatchdogTimeout: 15 * time.Second, UpstreamTimeout: 2 * time.Second})
	key := newKey()
	elsewhere := redistest.KeyIn((int(slots.Of([]byte(key)))+slots.Count/3)%slots.Count, "other")
	a, b := connect(t, s), connect(t, s)
	a.token(key)
	channel := script.Plain.Channel(key)
	<-s.Events.Subscribe(channel, script.Lock{Key: key}) // b needs no second attempt after it has subscribed
	defer s.Events.Unsubscribe(channel, true)
	waiting := b.await(s, 1, key, "BLOCK", "0")
	if n := rdb.Wait(t.Context(), 1, time.Second).Val(); n < 0 {
		t.Fatal("no replica")
	}
	eventually(t, 5*time.Second, "the replica has the hold", func() bool {
		n, err := cluster.ReplicaOf(int(slots.Of([]byte(key)))).Client().DBSize(t.Context()).Result()
		return err == nil && n >= 1
	})
	if err := cluster.MasterOf(int(slots.Of([]byte(key)))).Server.Kill(); err != nil {
		t.Fatal(err)
	}
	connect(t, s).token(elsewhere)
	reply := connect(t, impatient).do("LOCK.ACQUIRE", key)
	if reply == "-"+refusal.Unanswered { // it was sent before Leash noticed the end of a connection
		reply = connect(t, impatient).do("LOCK.ACQUIRE", key)
	}
	want(t, reply, "-"+refusal.Refused)
	eventually(t, 12*time.Second, "the replica serves", func() bool {
		return connect(t, impatient).do("LOCK.ACQUIRE", key) == "$-1"
	})
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
	token := tokenOf(t, receive(t, waiting, 5*time.Second))
	if token == 0 || len(a.losses)+len(b.losses) != 0 {
		t.Error("the waiter did not get the lock as it should")
	}
}

// TestSickReplicasHoldUpNoScript: A go-redis cluster client asks some node, for up to 5 s, which
// commands exist, before its first command. Scripts do not wait for that.
func TestSickReplicasHoldUpNoScript(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	var masters []string
	for _, n := range cluster.Masters() {
		masters = append(masters, n.Addr)
	}
	for _, n := range cluster.Nodes {
		if slices.Contains(masters, n.Addr) {
			continue
		}
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 { // each client asks nodes at random
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		key := redistest.KeyIn(i*2000, "lock")
		reply, err := script.ReleaseScript.Run(ctx, dialCluster(t, masters...), script.Plain.EndKeys(key),
			words("me", 1, "nobody", 1, "", script.LockChannel(key), "p"))
		cancel()
		if err != nil || fmt.Sprint(reply) != "-1" {
			t.Fatalf("client %d: %v %v", i, reply, err)
		}
	}
}
