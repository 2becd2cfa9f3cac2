package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"leash/internal/redistest"
)

// workers is how many clients send commands.
const workers = 8

// traffic is clients that send commands one after the other and check each reply.
type traffic struct {
	addr               string
	commands, received atomic.Int64
}

// work sends commands until ctx is done. It uses the shared connections, a reserved one that blocks
// and a transaction.
func (t *traffic) work(ctx context.Context, id int) error {
	c, err := redistest.Dial(t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	key, list := fmt.Sprint("key:", id), fmt.Sprint("list:", id)
	for i := 0; ctx.Err() == nil; i++ {
		v := strconv.Itoa(i)
		bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
		for _, step := range []struct {
			want string
			args []string
		}{
			{"+OK\r\n", []string{"SET", key, v}},
			{bulk, []string{"GET", key}},
			{":1\r\n", []string{"LPUSH", list, v}},
			{fmt.Sprintf("*2\r\n$%d\r\n%s\r\n%s", len(list), list, bulk), []string{"BLPOP", list, "0"}},
			{"+OK\r\n", []string{"WATCH", key}},
			{"+OK\r\n", []string{"MULTI"}},
			{"+QUEUED\r\n", []string{"GET", key}},
			{"+QUEUED\r\n", []string{"ECHO", v}},
			{"*2\r\n" + bulk + bulk, []string{"EXEC"}},
		} {
			got, err := c.Do(step.args...)
			if err != nil || got != step.want {
				return fmt.Errorf("%q was answered %q %v, not %q", step.args, got, err, step.want)
			}
			t.commands.Add(1)
		}
		pause(ctx, 20*time.Millisecond) // the machine has other work
	}
	return nil
}

// messages publishes numbers and receives each of them, until ctx is done.
func (t *traffic) messages(ctx context.Context) error {
	from, err := redistest.Dial(t.addr)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := redistest.Dial(t.addr)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := to.Do("SUBSCRIBE", "news"); err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		v := strconv.Itoa(i)
		if got, err := from.Do("PUBLISH", "news", v); err != nil || got != ":1\r\n" {
			return fmt.Errorf("PUBLISH was answered %q %v", got, err)
		}
		want := fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$%d\r\n%s\r\n", len(v), v)
		if got, err := to.Read(); err != nil || got != want {
			return fmt.Errorf("received %q %v, not %q", got, err, want)
		}
		t.received.Add(1)
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
