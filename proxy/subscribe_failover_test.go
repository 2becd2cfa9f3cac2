package proxy

import (
	"fmt"
	"testing"
	"time"

	"leash/internal/redistest"
)

// receivesAgain publishes through Leash until a subscriber gets a message. It then checks that the
// subscriber gets every message once and in order.
func receivesAgain(t *testing.T, l *leash, subscriber *redistest.Client, proto, channel string) {
	t.Helper()
	publisher := l.dial(t)
	subscriber.Timeout = 100 * time.Millisecond
	eventually(t, "a message is heard", func() bool {
		_, _ = publisher.Do("PUBLISH", channel, "again") // a node may just be dying
		_, err := subscriber.Read()
		return err == nil
	})
	do(t, publisher, "PUBLISH", channel, "settled")
	subscriber.Timeout = 0
	for {
		frame, err := subscriber.Read()
		if err != nil {
			t.Fatal(err)
		}
		if frame == message(proto, channel, "settled") {
			break
		}
	}
	for i := range 100 {
		do(t, publisher, "PUBLISH", channel, fmt.Sprint(i))
		wantRead(t, subscriber, message(proto, channel, fmt.Sprint(i)))
	}
}

func TestSubscribersSurviveLossOfMasters(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	l := startLeash(t, cluster.Addrs())
	two, three := listening(t, l, "2", "news"), listening(t, l, "3", "other")
	for slot := 0; slot < 16384; slot += 16384/3 + 1 {
		master := cluster.MasterOf(slot)
		if err := master.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.AwaitMaster(slot, master, time.Minute); err != nil {
			t.Fatal(err)
		}
		receivesAgain(t, l, two, "2", "news")
		receivesAgain(t, l, three, "3", "other")
		if err := master.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.AwaitStable(30 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	want(t, three, confirmation("3", "unsubscribe", "other", 0), "UNSUBSCRIBE", "other")
	want(t, two, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "PING")
}

func TestSubscribersFollowSentinels(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := redistest.StartSentinel(t)
	l := startBehindSentinels(t, g)
	two, three := listening(t, l, "2", "news"), listening(t, l, "3", "other")
	second, err := g.Failover()
	if err != nil {
		t.Fatal(err)
	}
	receivesAgain(t, l, two, "2", "news")
	receivesAgain(t, l, three, "3", "other")
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.AwaitMaster(second, time.Minute); err != nil {
		t.Fatal(err)
	}
	receivesAgain(t, l, two, "2", "news")
	receivesAgain(t, l, three, "3", "other")
}
