// Goredis does with go-redis what it is used for: goredis host port standalone|cluster [direct]. Or
// it goes on while the master changes: goredis host port failover sentinels.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An app is a program that uses Redis.
type app struct {
	ctx  context.Context
	addr string
	mode string
	tls  *tls.Config // nil without
	rdb  redis.UniversalClient
}

// A step is something that an app does.
type step struct {
	name string
	try  func() error
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := &app{ctx: ctx, addr: net.JoinHostPort(os.Args[1], os.Args[2]), mode: os.Args[3]}
	var skip []string // what Leash adds to Redis, and code without TLS
	if os.Getenv("INTEROP_TLS") != "" {
		a.tls = &tls.Config{}
		skip = append(skip, "lock of the readme", "password")
	}
	if a.mode == "cluster" {
		a.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.addr}, TLSConfig: a.tls})
	} else {
		a.rdb = redis.NewClient(&redis.Options{Addr: a.addr, TLSConfig: a.tls})
	}
	if len(os.Args) > 4 && os.Args[4] == "direct" {
		skip = append(skip, "locks", "lock of the readme", "password")
		if a.mode == "cluster" {
			skip = append(skip, "keys over slots")
		}
	}
	steps := []step{
		{"strings", a.strings}, {"hashes", a.hashes}, {"lists", a.lists}, {"sets", a.sets}, {"zsets", a.zsets},
		{"streams", a.streams}, {"keys over slots", a.keysOverSlots}, {"pipeline", a.pipeline},
		{"transaction", a.transaction}, {"watch", a.watch}, {"pub/sub", a.pubsub}, {"blocking", a.blocking},
		{"scripts", a.scripts}, {"scan", a.scan}, {"large value", a.largeValue}, {"reconnect", a.reconnect},
		{"locks", a.locks}, {"lock of the readme", a.lockOfTheReadme}, {"password", a.password},
	}
	if a.mode == "failover" {
		steps = []step{{"failover", a.failover}}
	}
	failed := 0
	for _, step := range steps {
		if slices.Contains(skip, step.name) {
			continue
		}
		if err := step.try(); err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", step.name, err)
			continue
		}
		fmt.Println("ok", step.name)
	}
	if err := a.rdb.Close(); err != nil || failed > 0 {
		os.Exit(1)
	}
}

// want is an error unless err is nil and got is what was wanted.
func want(what string, got any, err error, wanted any) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !reflect.DeepEqual(got, wanted) {
		return fmt.Errorf("%s: got %.200v, want %.200v", what, got, wanted)
	}
	return nil
}

func (a *app) pipeline() error {
	cmds, err := a.rdb.Pipelined(a.ctx, func(p redis.Pipeliner) error {
		for i := range 5000 {
			key := fmt.Sprintf("pipe:%d", i)
			p.Set(a.ctx, key, i, 0)
			p.Get(a.ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range 5000 {
		set, get := cmds[2*i].(*redis.StatusCmd).Val(), cmds[2*i+1].(*redis.StringCmd).Val()
		if set != "OK" || get != strconv.Itoa(i) {
			return fmt.Errorf("replies of pair %d: %q, %q", i, set, get)
		}
	}
	return nil
}

func (a *app) transaction() error {
	var sum *redis.IntCmd
	var wrong *redis.IntCmd
	_, err := a.rdb.TxPipelined(a.ctx, func(p redis.Pipeliner) error {
		p.Set(a.ctx, "{tx}text", "words", 0)
		sum = p.IncrBy(a.ctx, "{tx}number", 7)
		wrong = p.LPush(a.ctx, "{tx}text", "no list")
		return nil
	})
	if err == nil || !strings.HasPrefix(wrong.Err().Error(), "WRONGTYPE") {
		return fmt.Errorf("LPUSH to a string: got %v, want WRONGTYPE", err)
	}
	return want("INCRBY", sum.Val(), sum.Err(), int64(7))
}

// watch lets four workers add to one counter by reading and writing it, 25 times each.
func (a *app) watch() error {
	add := func(tx *redis.Tx) error {
		n, err := tx.Get(a.ctx, "counter").Int()
		if err != nil && err != redis.Nil {
			return err
		}
		_, err = tx.TxPipelined(a.ctx, func(p redis.Pipeliner) error { return p.Set(a.ctx, "counter", n+1, 0).Err() })
		return err
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for done := 0; done < 25 && errs[worker] == nil; {
				switch err := a.rdb.Watch(a.ctx, add, "counter"); err {
				case nil:
					done++
				case redis.TxFailedErr: // another one was faster
				default:
					errs[worker] = err
				}
			}
		})
	}
	wg.Wait()
	got, err := a.rdb.Get(a.ctx, "counter").Result()
	return errors.Join(errors.Join(errs...), want("counter", got, err, "100"))
}

func (a *app) pubsub() error {
	ways := []struct {
		sub     *redis.PubSub
		publish func(context.Context, string, any) *redis.IntCmd
		channel string
		pattern string
	}{
		{a.rdb.Subscribe(a.ctx, "news"), a.rdb.Publish, "news", ""},
		{a.rdb.PSubscribe(a.ctx, "weather.*"), a.rdb.Publish, "weather.sea", "weather.*"},
		{a.rdb.SSubscribe(a.ctx, "shard"), a.rdb.SPublish, "shard", ""},
	}
	var errs []error
	for _, way := range ways {
		defer way.sub.Close()
		if _, err := way.sub.Receive(a.ctx); err != nil { // the confirmation
			return fmt.Errorf("subscribe to %s: %w", way.channel, err)
		}
		for i := range 20 {
			if err := way.publish(a.ctx, way.channel, strconv.Itoa(i)).Err(); err != nil {
				return err
			}
			got, err := way.sub.ReceiveMessage(a.ctx)
			if err != nil {
				return err
			}
			errs = append(errs, want("message", *got, nil, redis.Message{Channel: way.channel, Pattern: way.pattern, Payload: strconv.Itoa(i)}))
		}
	}
	return errors.Join(errs...)
}

func (a *app) blocking() error {
	_, timeout := a.rdb.BLPop(a.ctx, time.Second, "queue").Result()
	pushed := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond) // so that the pop is waiting
		pushed <- a.rdb.RPush(a.ctx, "queue", "job").Err()
	}()
	got, err := a.rdb.BLPop(a.ctx, 10*time.Second, "queue").Result()
	return errors.Join(want("BLPOP of nothing", timeout, nil, redis.Nil), want("BLPOP", got, err, []string{"queue", "job"}), <-pushed)
}

func (a *app) scripts() error {
	script := redis.NewScript("return {KEYS[1], ARGV[1] + 1} -- go-redis " + a.mode)
	_, unknown := script.EvalSha(a.ctx, a.rdb, []string{"script"}, 41).Result()
	if unknown == nil || !strings.HasPrefix(unknown.Error(), "NOSCRIPT") {
		return fmt.Errorf("EVALSHA of a new script: got %v, want NOSCRIPT", unknown)
	}
	run, err := script.Run(a.ctx, a.rdb, []string{"script"}, 41).Result()
	sha, err2 := script.EvalSha(a.ctx, a.rdb, []string{"script"}, 41).Result()
	wanted := []any{"script", int64(42)}
	return errors.Join(want("EVALSHA, then EVAL", run, err, wanted), want("EVALSHA", sha, err2, wanted))
}

// reconnect kills all connections of the client, which then goes on as if nothing had happened.
func (a *app) reconnect() error {
	killer := redis.NewClient(&redis.Options{Addr: a.addr, TLSConfig: a.tls})
	defer killer.Close()
	killed, err := killer.ClientKillByFilter(a.ctx, "TYPE", "normal", "SKIPME", "yes").Result()
	if err != nil || killed == 0 {
		return fmt.Errorf("CLIENT KILL: got %d, %v", killed, err)
	}
	// With TLS, the pool does not look whether a connection has ended. It finds out by using it.
	for a.tls != nil && a.ctx.Err() == nil && a.rdb.Ping(a.ctx).Err() != nil {
	}
	for i := range 20 {
		if err := a.rdb.Set(a.ctx, fmt.Sprintf("back:%d", i), i, 0).Err(); err != nil {
			return fmt.Errorf("after CLIENT KILL: %w", err)
		}
	}
	return nil
}

// locks passes the token along, since a pool may release on another connection than it acquired on.
func (a *app) locks() error {
	token, err := a.rdb.Do(a.ctx, "LOCK.ACQUIRE", "order:42").Int64()
	if err != nil || token <= 0 {
		return fmt.Errorf("LOCK.ACQUIRE: got %d, %v", token, err)
	}
	taken := a.rdb.Do(a.ctx, "LOCK.ACQUIRE", "order:42").Err()
	released, err := a.rdb.Do(a.ctx, "LOCK.RELEASE", "order:42", "TOKEN", token).Int64()
	return errors.Join(want("LOCK.ACQUIRE of a taken lock", taken, nil, redis.Nil), want("LOCK.RELEASE", released, err, int64(1)))
}

// lockOfTheReadme sees that the lock is held while there is work, and free after it also when that
// failed, and that the work is told when its connection is lost.
func (a *app) lockOfTheReadme() error {
	if a.mode == "cluster" {
		return nil // its clients have a pool for each node, and so are as the others
	}
	release := func() error {
		if err := a.rdb.Do(a.ctx, "LOCK.ACQUIRE", "order:42").Err(); err != nil {
			return fmt.Errorf("LOCK.ACQUIRE of what should be free: %w", err)
		}
		return a.rdb.Do(a.ctx, "LOCK.RELEASE", "order:42").Err()
	}
	works := func(*redis.Conn) error {
		return want("LOCK.ACQUIRE at work", a.rdb.Do(a.ctx, "LOCK.ACQUIRE", "order:42").Err(), nil, redis.Nil)
	}
	if err := errors.Join(locked(a.ctx, a.addr, works), release()); err != nil {
		return err
	}
	failed := errors.New("at work")
	fails := func(*redis.Conn) error { return failed }
	if err := errors.Join(want("error", locked(a.ctx, a.addr, fails), nil, failed), release()); err != nil {
		return err
	}
	var told error
	loses := func(c *redis.Conn) error {
		id := strconv.FormatInt(c.ClientID(a.ctx).Val(), 10)
		if err := a.rdb.(*redis.Client).ClientKillByFilter(a.ctx, "ID", id).Err(); err != nil {
			return err
		}
		told = c.Get(a.ctx, "stock:42").Err()
		return told
	}
	err := locked(a.ctx, a.addr, loses)
	if told == nil || errors.Is(told, redis.Nil) || !errors.Is(err, told) {
		return fmt.Errorf("the lost connection says %v, and the work ends with %v", told, err)
	}
	return a.rdb.Del(a.ctx, "order:42").Err() // Leash leaves it to run out
}

// password connects as a user with a password.
func (a *app) password() error {
	rdb := withPassword(a.addr)
	defer rdb.Close()
	user, err := rdb.Do(a.ctx, "ACL", "WHOAMI").Text()
	return want("ACL WHOAMI", user, err, "shop")
}
