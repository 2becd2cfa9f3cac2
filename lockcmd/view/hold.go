package view

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// Hold is a hold as people see it.
type Hold struct {
	DB       int
	Key      string
	Mode     string // plain, fair, read, write or permit
	Owner    string // of a permit: its id
	Token    int64
	Client   string        // "addr:port name", "" if unknown
	ClientID int64         // the number of the client on this Leash, 0 if it is on another one
	Leash    string        // the Leash that carries it, "" if none does
	Count    int64         // acquires of its owner
	Age      time.Duration // on this Leash, or since the grant if another Leash has it
	Left     time.Duration // how long it is certain without another renewal
	TTL      time.Duration // what a renewal sets, or the lease
	Lease    bool          // it is not renewed
	Waiters  int           // on this Leash, for its lock
}

// hold returns h as people see it. ok is false if it has ended.
func (v *Viewer) hold(h *hold.Hold) (shown Hold, ok bool) {
	d := h.Details()
	shown = Hold{
		DB: h.Lock().DB, Key: h.Key(), Mode: h.Mode().Name, Owner: h.Owner(), Token: h.Token, Count: d.Count,
		Client: h.Carrier.Client().Name, ClientID: h.Carrier.ClientID(), Leash: v.acquirer.Holds.Leash,
		Age: h.Age(), TTL: d.TTL, Lease: d.Terms.Lease, Waiters: v.Waiting(h.Lock()),
	}
	shown.Left, _ = h.Left()
	return shown, d.State != hold.Over
}

// holdInRedis is a hold as Redis has it, at Redis's time in ms.
func (v *Viewer) holdInRedis(lock script.Lock, f script.Hold, now int64, left time.Duration) Hold {
	if h := v.acquirer.Holds.FindRef(f.Ref(lock)); h != nil {
		if shown, ok := v.hold(h); ok {
			return shown
		}
	}
	shown := Hold{
		DB: lock.DB, Key: lock.Key, Mode: f.Mode.Name, Owner: f.Owner, Token: f.Record.Token, Count: f.Count,
		Leash: script.CarrierLeash(f.Record.Carrier), Left: left, TTL: script.Millis(f.Record.TTL),
	}
	if f.Record.Token != 0 {
		shown.Age = max(script.Millis(now-f.Record.Since), 0)
		shown.Lease = f.Record.Terms().Lease
	}
	if f.Record.Client != "-" {
		shown.Client = f.Record.Client
	}
	return shown
}
