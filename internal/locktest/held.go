package locktest

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// HeldBy is a hold of the owner "me" with two counts.
type HeldBy struct {
	T       *testing.T
	Rdb     redis.UniversalClient
	Mode    *script.Mode
	Key     string
	Token   int64
	Carrier string
	Last    int64 // the carrier's last request
}

// RunScript runs a script by its text.
func RunScript(ctx context.Context, rdb redis.UniversalClient, sc *transport.Script, keys []string,
	args ...string) (any, error) {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = arg
	}
	return rdb.Eval(ctx, sc.Source, keys, all...).Result()
}

// Call runs a script and checks its reply.
func (h *HeldBy) Call(want string, sc *transport.Script, keys []string, args ...any) {
	h.T.Helper()
	reply, err := RunScript(context.Background(), h.Rdb, sc, keys, transport.Words(args...)...)
	if got := fmt.Sprint(reply); err != nil || got != want {
		h.T.Errorf("%s: got %s, %v, want %s", h.Mode.Name, got, err, want)
	}
}

// Refused runs a script and checks its reply, and that nothing has changed in Redis.
func (h *HeldBy) Refused(want string, sc *transport.Script, keys []string, args ...any) {
	h.T.Helper()
	state := func() string {
		return fmt.Sprint(InRedis(h.T, h.Rdb, h.Key), InRedis(h.T, h.Rdb, script.RecordsKey(h.Key)))
	}
	before := state()
	if h.Call(want, sc, keys, args...); state() != before {
		h.T.Errorf("%s: it was refused, and %s became %s", h.Mode.Name, before, state())
	}
}

// Hand returns the arguments of a hand-over, except for the last one.
func (h *HeldBy) Hand(token int64, carrier string, number int64) []any {
	return []any{"me", token, carrier, number, "", "you", "x:1.1", 1, 30000, "w", 0, "-", "client", "-", "",
		h.Mode.Channel(h.Key), "p"}
}

// Refuse calls the scripts that end a hold, for others and too late.
func (h *HeldBy) Refuse() {
	m, key, channel := h.Mode, h.Key, h.Mode.Channel(h.Key)
	ends, hands, revokes := m.ReleaseKeys(key), m.EndKeys(key, script.TokenKey(key)),
		m.EndKeys(key, "{"+key+"}:t", "{"+key+"}:a")
	for _, other := range []struct {
		token   int64
		carrier string
	}{{h.Token - 1, h.Carrier}, {h.Token, "x:1.1"}} {
		h.Refused("-1", m.Release, ends, "me", other.token, other.carrier, h.Last+9, "all", channel, "p")
		h.Refused("[-1]", m.Handover, hands, append(h.Hand(other.token, other.carrier, h.Last+9), m.Name)...)
		h.Refused("-1", m.Revoke, revokes, "me", other.token, other.carrier, "all", channel, "p", 1000, "", "", "")
		h.Refused("[0]", m.Renew, m.Keys(key), 60000, "me", script.RecordPrefix(other.token, other.carrier))
	}
	h.Refused("-2", m.Release, ends, "me", h.Token, h.Carrier, h.Last-1, "all", channel, "p")
	h.Refused("[-2]", m.Handover, hands, append(h.Hand(h.Token, h.Carrier, h.Last-1), m.Name)...)
	h.Refused("-1", m.Undo, m.EndKeys(key), "me", "x:1.1", h.Last, h.Last+1, channel, "p", 0)
	for _, owner := range []string{"me", "you"} { // held through a Leash, and not held
		h.Refused("0", m.BreakOther, m.EndKeys(key, "{"+key+"}:a"), owner, channel, "p", 1000)
	}
	if n := h.Rdb.Exists(context.Background(), "{"+key+"}:t", "{"+key+"}:a").Val(); n != 0 {
		h.T.Errorf("%s: %d answers were left about what was not done", m.Name, n)
	}
}

// RefuseToMove calls the scripts that change the carrier or the end of a hold.
func (h *HeldBy) RefuseToMove() {
	m, key := h.Mode, h.Key
	keys := m.Keys(key, "{"+key+"}:t", "{"+key+"}:n")
	for _, row := range [][]any{
		{h.Token - 1, h.Carrier, "", ""}, {h.Token, "x:1.1", "", ""}, {h.Token, h.Carrier, h.Last + 1, ""},
		{h.Token, h.Carrier, "", "=another"},
	} {
		h.Refused("[-1]", m.Move, keys, append(append([]any{"me"}, row...), "y:1.1", 1, "client", event.Moved, 1000,
			"", "")...)
	}
	record := "L1 5 x:1.1 1 5 1 30000 l - - c"
	h.Refused("-1", m.Extend, m.Keys(key, "{"+key+"}:t"), "me", record,
		"L1 5 x:1.1 1 5 1 90000 l extend=x:1 - c", 90000, "", "", 1000)
	if Exists(h.T, h.Rdb, "{"+key+"}:t") {
		h.T.Errorf("%s: a tombstone was left of what was not done", m.Name)
	}
}

// RefuseAcquires calls the acquire script.
func (h *HeldBy) RefuseAcquires() {
	acquire := func(want string, m *script.Mode, key, owner, carrier string, number, tracked any) {
		h.T.Helper()
		keys, args := m.Keys(key, script.TokenKey(key)),
			[]any{owner, carrier, number, tracked, 30000, "w", 0, "-", "client", "-"}
		if m.Fair {
			keys, args = append(keys, m.Queue(key)...), append(args, "", m.Channel(key), "p")
		}
		h.Refused(want, m.Acquire, keys, args...)
	}
	acquire("[4]", h.Mode, h.Key, "me", h.Carrier, h.Last-1, h.Token)
	acquire(fmt.Sprintf("[2 %d %s -]", h.Token, h.Carrier), h.Mode, h.Key, "me", "x:1.1", 1, 0)
	acquire("[3]", h.Mode, NewKey(), "me", h.Carrier, h.Last+1, h.Token)
	if h.Mode.Helpers == nil {
		acquire("[5]", script.Write, h.Key, "me", h.Carrier, h.Last+1, 0)
	} else {
		acquire("[5]", script.Plain, h.Key, "me", h.Carrier, h.Last+1, 0)
		acquire("[5]", script.Fair, h.Key, "me", h.Carrier, h.Last+1, 0)
	}
}

// RefuseOneKey calls the scripts that change one key of a hold, for use during a slot migration.
func (h *HeldBy) RefuseOneKey() {
	m, key, channel := h.Mode, h.Key, h.Mode.Channel(h.Key)
	if m.ReleaseKey == nil {
		return
	}
	records := []string{script.RecordsKey(key)}
	h.Refused("-1", m.ReleaseKey, records, "me", h.Token-1, h.Carrier, h.Last+9, "all", channel, "p", 2, "records")
	h.Refused("-2", m.ReleaseKey, records, "me", h.Token, h.Carrier, h.Last-1, "all", channel, "p", 2, "records")
	h.Refused("0", m.RenewKey, records, 90000, "me", script.RecordPrefix(h.Token-1, h.Carrier))
	h.Refused("0", m.RenewKey, []string{key}, 90000, "you", "")
}
