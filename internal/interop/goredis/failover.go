package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const master = "leash" // its name at the sentinels

// failover keeps a connection, with a lock on it, and writes while the sentinels name another
// master. The connection and the lock stay, and what is written then is at the new master.
func (a *app) failover() error {
	addr, _, _ := strings.Cut(os.Args[4], ",")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr, TLSConfig: a.tls})
	defer sentinel.Close()
	conn := redis.NewClient(&redis.Options{Addr: a.addr, TLSConfig: a.tls, MaxRetries: -1}).Conn()
	defer conn.Close()
	id, err := conn.ClientID(a.ctx).Result()
	token, err2 := conn.Do(a.ctx, "LOCK.ACQUIRE", "deploy").Int64()
	copies, err3 := conn.Do(a.ctx, "WAIT", 1, 10000).Int64()
	old, err4 := masterAt(a.ctx, sentinel)
	if err := errors.Join(err, err2, want("WAIT", copies, err3, int64(1)), err4); err != nil {
		return err
	}
	if err := sentinel.Failover(a.ctx, master).Err(); err != nil {
		return err
	}
	lost, now, err := a.writeUntilMoved(conn, sentinel, old)
	if err != nil {
		return err
	}
	fmt.Printf("from %s to %s, %d writes without an answer\n", old, now, lost)
	last, err := conn.Incr(a.ctx, "written").Result()
	there, err2 := a.getAt(now, "written")
	same, err3 := conn.ClientID(a.ctx).Result()
	held, err4 := conn.Do(a.ctx, "LOCK.CHECK", "deploy", "TOKEN", token).Int64()
	released, err5 := conn.Do(a.ctx, "LOCK.RELEASE", "deploy").Int64()
	return errors.Join(want("the number at the new master", there, err2, last), err, want("CLIENT ID", same, err3, id),
		want("LOCK.CHECK", held, err4, int64(1)), want("LOCK.RELEASE", released, err5, int64(1)))
}

// writeUntilMoved writes until the sentinels name another master and it has what was written. It
// returns how many writes got no answer, and where that master is.
func (a *app) writeUntilMoved(conn *redis.Conn, sentinel *redis.SentinelClient, old string) (lost int, now string, err error) {
	for a.ctx.Err() == nil {
		n, err := conn.Incr(a.ctx, "written").Result()
		if err != nil && strings.HasPrefix(err.Error(), "UPSTREAM") {
			lost++
			continue
		}
		if err != nil {
			return 0, "", err
		}
		if now, err = masterAt(a.ctx, sentinel); err != nil {
			return 0, "", err
		}
		if now == old {
			continue
		}
		if there, err := a.getAt(now, "written"); err == nil && there == n {
			return lost, now, nil
		}
		time.Sleep(10 * time.Millisecond) // between two new connections
	}
	return 0, "", context.Cause(a.ctx)
}

func masterAt(ctx context.Context, sentinel *redis.SentinelClient) (string, error) {
	at, err := sentinel.GetMasterAddrByName(ctx, master).Result()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

// getAt reads a number at a server itself. Its certificate has a name and no address.
func (a *app) getAt(addr, key string) (int64, error) {
	config := a.tls.Clone()
	config.ServerName = "localhost"
	c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
	defer c.Close()
	return c.Get(a.ctx, key).Int64()
}
