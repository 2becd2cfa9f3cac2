package lockcmd_test

import (
	"strings"
	"testing"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestArgumentsAreCheckedBeforeAnyEffect(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a := locktest.Connect(t, s)
	long := strings.Repeat("x", 129)
	for _, row := range []struct{ command, want string }{
		{"LOCK.ACQUIRE", "ERR wrong number of arguments for 'lock.acquire' command"},
		{"lock.release", "ERR wrong number of arguments for 'lock.release' command"},
		{"LOCK.TTL", "ERR wrong number of arguments for 'lock.ttl' command"},
		{"LOCK.INFO % %", "ERR wrong number of arguments for 'lock.info' command"},
		{"LOCK.ACQUIRE % BLOCK", "ERR syntax error"},
		{"LOCK.ACQUIRE % NOW", "ERR syntax error"},
		{"LOCK.ACQUIRE % BLOCK 1 BLOCK 2", "ERR syntax error"},
		{"LOCK.ACQUIRE % block 1 Block 2", "ERR syntax error"},
		{"LOCK.ACQUIRE % BLOCK -1", "ERR timeout is negative"},
		{"LOCK.ACQUIRE % BLOCK x", "ERR timeout is not an integer or out of range"},
		{"LOCK.ACQUIRE % BLOCK 9223372036854775808", "ERR timeout is not an integer or out of range"},
		{"LOCK.ACQUIRE % BLOCK 9223372036854775807", "ERR timeout is out of range"},
		{"LOCK.ACQUIRE % LEASE 1.5", "ERR value is not an integer or out of range"},
		{"LOCK.ACQUIRE % LEASE +5", "ERR value is not an integer or out of range"},
		{"LOCK.ACQUIRE % LEASE 05", "ERR value is not an integer or out of range"},
		{"LOCK.ACQUIRE % LEASE 0", "ERR invalid expire time in 'lock.acquire' command"},
		{"LOCK.ACQUIRE % LEASE 9223372036854775807", "ERR invalid expire time in 'lock.acquire' command"},
		{"LOCK.ACQUIRE % TTL -1", "ERR invalid expire time in 'lock.acquire' command"},
		{"LOCK.ACQUIRE % TTL 99", "ERR invalid TTL: the minimum is 100 ms"},
		{"LOCK.ACQUIRE % LEASE 500 TTL 500", refusal.LeaseAndTTL},
		{"LOCK.ACQUIRE % ID 1", "ERR syntax error"},
		{"LOCK.ACQUIRE % OWNER mode", refusal.Owner},
		{"LOCK.ACQUIRE % OWNER leash", refusal.Owner},
		{"LOCK.ACQUIRE % OWNER leashed", refusal.Owner},
		{"LOCK.ACQUIRE % OWNER me:write", refusal.Owner},
		{"LOCK.ACQUIRE % OWNER " + long, refusal.Owner},
		{"LOCK.ACQUIRE % OWNER m\u00e9", refusal.Owner},
		{"LOCK.ACQUIRE % OWNER me ID " + long, refusal.ID},
		{"LOCK.ACQUIRE % READ WRITE", "ERR syntax error"},
		{"LOCK.ACQUIRE % READ READ", "ERR syntax error"},
		{"LOCK.TTL % READ", "ERR syntax error"},
		{"LOCK.ACQUIRE % onloss", "ERR syntax error"},
		{"LOCK.ACQUIRE % onloss PANIC", "ERR syntax error"},
		{"LOCK.ACQUIRE % ONLOSS CLOSE ONLOSS ERROR", "ERR syntax error"},
		{"LOCK.ACQUIRE % MAXHOLD 0", "ERR invalid expire time in 'lock.acquire' command"},
		{"LOCK.ACQUIRE % MAXHOLD x", "ERR value is not an integer or out of range"},
		{"LOCK.ACQUIRE % MAXHOLD 9223372036854775807", "ERR invalid expire time in 'lock.acquire' command"},
		{"LOCK.ACQUIRE % REPLICAS", "ERR syntax error"},
		{"LOCK.ACQUIRE % REPLICAS x", "ERR value is not an integer or out of range"},
		{"LOCK.ACQUIRE % REPLICAS 0", "ERR value is out of range, must be positive"},
		{"LOCK.ACQUIRE % REPLICAS 2147483648", "ERR value is out of range, must be positive"},
		{"LOCK.RELEASE % REPLICAS 1", "ERR syntax error"},
		{"LOCK.ACQUIRE % ONCLOSE EXPIRE", "ERR syntax error"},
		{"LOCK.ACQUIRE % OWNER me ONCLOSE LATER", "ERR syntax error"},
		{"LOCK.ACQUIRE % OWNER me ONCLOSE", "ERR syntax error"},
		{"LOCK.ATTACH", "ERR wrong number of arguments for 'lock.attach' command"},
		{"LOCK.ATTACH % OWNER me", "ERR wrong number of arguments for 'lock.attach' command"},
		{"LOCK.ATTACH % OWNER me TOKEN 0", "ERR value is not an integer or out of range"},
		{"LOCK.ATTACH % OWNER me TOKEN 1 ALL", "ERR syntax error"},
		{"LOCK.ACQUIRE % TOKEN 1", "ERR syntax error"},
		{"LOCK.RELEASE % TOKEN x", "ERR value is not an integer or out of range"},
		{"LOCK.RELEASE % TOKEN 0", "ERR value is not an integer or out of range"},
		{"LOCK.RELEASE % TOKEN 1 OWNER me", "ERR syntax error"},
		{"LOCK.RELEASE % ALL ALL", "ERR syntax error"},
		{"LOCK.RELEASE % WRITE READ", "ERR syntax error"},
		{"LOCK.RELEASE % FAIR", "ERR syntax error"},
		{"LOCK.RELEASE % BLOCK 1", "ERR syntax error"},
		{"LOCK.TTL % ALL", "ERR syntax error"},
		{"LOCK.EXTEND %", "ERR wrong number of arguments for 'lock.extend' command"},
		{"LOCK.EXTEND % soon", "ERR value is not an integer or out of range"},
		{"LOCK.EXTEND % 0", "ERR invalid expire time in 'lock.extend' command"},
		{"LOCK.EXTEND % -1", "ERR invalid expire time in 'lock.extend' command"},
		{"LOCK.EXTEND % 9223372036854775807", "ERR invalid expire time in 'lock.extend' command"},
		{"LOCK.EXTEND % 5 TOKEN 1 OWNER me", "ERR syntax error"},
		{"LOCK.EXTEND % 5 TOKEN", "ERR syntax error"},
		{"LOCK.EXTEND % 5 ALL", "ERR syntax error"},
		{"LOCK.BREAK", "ERR wrong number of arguments for 'lock.break' command"},
		{"LOCK.BREAK % ALL", "ERR wrong number of arguments for 'lock.break' command"},
		{"LOCK.CHECK %", "ERR wrong number of arguments for 'lock.check' command"},
		{"LOCK.CHECK % TOKEN", "ERR wrong number of arguments for 'lock.check' command"},
		{"LOCK.CHECK % TOKEN 0", "ERR value is not an integer or out of range"},
		{"LOCK.CHECK % OWNER me", "ERR syntax error"},
		{"LOCK.NOTHING % 5", "ERR command 'LOCK.NOTHING' is not supported by leash yet"},
		{"latch.peek %", "ERR command 'latch.peek' is not supported by leash yet"},
	} {
		args := strings.Fields(strings.ReplaceAll(row.command, "%", key))
		args[0] = strings.Fields(row.command)[0]
		got := a.Do(args...)
		if got != "-"+row.want {
			t.Errorf("%s: got %q, want %q", row.command, got, "-"+row.want)
		}
	}
	if locktest.Exists(t, rdb, key) || locktest.Exists(t, rdb, script.TokenKey(key)) || a.Carrier.Holds() != 0 {
		t.Error("a refused command had an effect")
	}
	a.Token(key, "lease", "-1", "Ttl", "500") // as in Redisson, -1 means no lease
}
