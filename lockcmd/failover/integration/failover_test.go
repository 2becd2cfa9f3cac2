package failover_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestMasterDies: A master dies. Its holds continue on its replica, and the other masters serve
// their own keys without interruption.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	// The waiter attempts when its subscription moves to another node. If the kill interrupts that
	// attempt, it ends in LOCKTIMEOUT after the upstream timeout: longer here than a failover.
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 15 * time.Second, UpstreamTimeout: time.Minute},
		locktest.SlowRetries)
	impatient := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 15 * time.Second,
		UpstreamTimeout: 2 * time.Second})
	key := locktest.NewKey()
	elsewhere := redistest.KeyIn((int(slots.Of([]byte(key)))+slots.Count/3)%slots.Count, "other")
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key)
	channel := script.Plain.Channel(key)
	<-s.Events.Subscribe(channel, script.Lock{Key: key}) // b needs no second attempt after it has subscribed
	defer s.Events.Unsubscribe(channel, true)
	waiting := b.Await(s, 1, key, "BLOCK", "0")
	if n := rdb.Wait(t.Context(), 1, time.Second).Val(); n < 0 {
		t.Fatal("no replica")
	}
	locktest.Eventually(t, 5*time.Second, "the replica has the hold", func() bool {
		n, err := cluster.ReplicaOf(int(slots.Of([]byte(key)))).Client().DBSize(t.Context()).Result()
		return err == nil && n >= 1
	})
	if err := cluster.MasterOf(int(slots.Of([]byte(key)))).Server.Kill(); err != nil {
		t.Fatal(err)
	}
	locktest.Connect(t, s).Token(elsewhere)
	reply := locktest.Connect(t, impatient).Do("LOCK.ACQUIRE", key)
	if reply == "-"+refusal.Unanswered { // it was sent before Leash noticed the end of a connection
		reply = locktest.Connect(t, impatient).Do("LOCK.ACQUIRE", key)
	}
	locktest.Want(t, reply, "-"+refusal.NotAccepted)
	locktest.Eventually(t, 12*time.Second, "the replica serves", func() bool {
		return locktest.Connect(t, impatient).Do("LOCK.ACQUIRE", key) == "$-1"
	})
	if len(a.Losses) != 0 {
		t.Fatalf("lost %s", <-a.Losses)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	token := locktest.TokenOf(t, locktest.Receive(t, waiting, 5*time.Second))
	if token == 0 || len(a.Losses)+len(b.Losses) != 0 {
		t.Error("the waiter did not get the lock as it should")
	}
}
