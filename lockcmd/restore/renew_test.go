package restore

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
	"leash/proxy/slots"
	"leash/renewal"
)

// answering is a link on which Redis answers with what the function appends.
type answering func(commands, dst []byte) []byte

// Scripts implements transport.Links.
func (f answering) Scripts(_ time.Time, _ int, _ slots.Slot, _ int, commands, dst []byte) ([]byte, bool, error) {
	return f(commands, dst), true, nil
}

// Script implements transport.Links.
func (f answering) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, command, dst []byte) ([]byte, bool, error) {
	return f(command, dst), true, nil
}

// Alone implements transport.Links.
func (f answering) Alone(_ time.Time, _ int, _ slots.Slot, _ int, commands, dst []byte) ([]byte, bool, error) {
	return f(commands, dst), true, nil
}

func (answering) Owners() []int                         { return nil }
func (answering) NodeAddr(slots.Slot) string            { return "" }
func (answering) Refresh()                              {}
func (answering) DropScriptConnections(int, slots.Slot) {}

// restorerOn returns the Restorer of a Leash without holds.
func restorerOn(link answering) *Restorer {
	r := &Restorer{Redis: &script.Client{Client: &transport.Client{Links: link}}}
	r.Holds = hold.NewRegistry(hold.Config{
		Leash: "one", Watchdog: renewal.New(r), Log: slog.New(slog.DiscardHandler),
	})
	return r
}

// batchOf returns a batch of n holds.
func batchOf(r *Restorer, m *script.Mode, n int) (b renewal.Batch) {
	var c hold.Carrier
	c.Init(r.Holds, 1, hold.Client{}, nil, nil)
	for i := range n {
		h := hold.New(&c, &hold.Grant{Key: "key" + strconv.Itoa(i), Mode: m, Number: int64(i + 1), Token: 1e15})
		b.Holds = append(b.Holds, &h.Watch)
	}
	return b
}

// TestRenewalsNameEachHold: A round names each hold as renew.lua reads it. It allocates nothing for
// a single hold.
func TestRenewalsNameEachHold(t *testing.T) {
	var sent []byte
	const many = 256
	r := restorerOn(func(commands, dst []byte) []byte {
		sent = append(sent[:0], commands...)
		holds := bytes.Count(commands, []byte("\r\nL1 "))
		return append(dst, "*"+strconv.Itoa(holds)+"\r\n"+strings.Repeat(":1\r\n", holds)...)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batches := []renewal.Batch{batchOf(r, script.Plain, 2)}
	out := [][]renewal.Outcome{make([]renewal.Outcome, many)}
	batches[0].TTL = time.Minute
	record := script.RecordPrefix(1e15, batches[0].Holds[0].Keeper.(*hold.Hold).Carrier.Name)
	r.Renew(ctx, "", batches, [][]renewal.Outcome{out[0][:2]})
	want := string(resp.AppendCommand(nil, "EVALSHA", script.RenewScript.SHA, "2", "key0", "key1", "60000",
		r.Holds.OwnerName(1), record, r.Holds.OwnerName(2), record))
	if string(sent) != want || out[0][1] != renewal.Renewed {
		t.Errorf("got %q, want %q", sent, want)
	}
	batches[0] = batchOf(r, script.Plain, many)
	if n := testing.AllocsPerRun(100, func() { r.Renew(ctx, "", batches, out) }); n > many/4 {
		t.Errorf("%v allocations for %d holds, want few", n, many)
	}
}

// BenchmarkRenewRound measures what a round of one batch costs Leash, without Redis.
func BenchmarkRenewRound(b *testing.B) {
	for _, m := range append(script.Modes[:], script.Permit) {
		b.Run(m.Name, func(b *testing.B) {
			const holds = 256
			answer := []byte("*256\r\n" + strings.Repeat(":1\r\n", holds))
			r := restorerOn(func(_, dst []byte) []byte { return append(dst, answer...) })
			batches := []renewal.Batch{batchOf(r, m, holds)}
			batches[0].TTL = time.Minute
			out := [][]renewal.Outcome{make([]renewal.Outcome, holds)}
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				r.Renew(ctx, "", batches, out)
			}
			if out[0][holds-1] != renewal.Renewed {
				b.Errorf("got %v", out[0][holds-1])
			}
		})
	}
}
