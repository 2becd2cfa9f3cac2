package pubsub_test

import (
	"fmt"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// receivesAgain publishes through Leash until a subscriber gets a message. It then checks that the
// subscriber gets every message once and in order.
func receivesAgain(t *testing.T, l *proxytest.Leash, subscriber *redistest.Client, proto, channel string) {
	t.Helper()
	publisher := l.Dial(t)
	subscriber.Timeout = 100 * time.Millisecond
	proxytest.Eventually(t, "a message is heard", func() bool {
		_, _ = publisher.Do("PUBLISH", channel, "again") // a node may just be dying
		_, err := subscriber.Read()
		return err == nil
	})
	publisher.Reply(t, "PUBLISH", channel, "settled")
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
		publisher.Reply(t, "PUBLISH", channel, fmt.Sprint(i))
		proxytest.WantRead(t, subscriber, message(proto, channel, fmt.Sprint(i)))
	}
}

func TestSubscribersSurviveLossOfMasters(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	l := proxytest.Start(t, cluster.Addrs())
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
	three.Want(t, confirmation("3", "unsubscribe", "other", 0), "UNSUBSCRIBE", "other")
	two.Want(t, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "PING")
}

func TestSubscribersFollowSentinels(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := redistest.StartSentinel(t)
	l := proxytest.StartBehindSentinels(t, g)
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
