package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// leashEvents is what this Leash hears from others about locks, and what it tells them about the
// ends of its holds. It implements event.Receiver and event.Holds.
type leashEvents struct {
	event.Subscriptions
	service *Service
	pending event.Pending
	// lossWaitsEnd is done after endLossWaits.
	lossWaitsEnd context.Context
	endLossWaits context.CancelFunc
}

// listen sets what the subscriptions need.
func (v *leashEvents) listen(s *Service, from event.Subscriber) {
	v.service, v.From, v.To = s, from, v
	v.Own = "leash:" + s.holds.Leash
	v.lossWaitsEnd, v.endLossWaits = context.WithCancel(context.Background())
	v.Plain, v.Sharded = s.cfg.Publish != PublishSharded, s.cfg.Publish != PublishPlain
}

// Wake implements event.Receiver. It wakes the heads of the channel's queues.
func (v *leashEvents) Wake(lock script.Lock, channel string, reserved bool) {
	id := wait.QueueID{Lock: lock, Channel: channel}
	if reserved {
		v.service.waits.Reserved(id)
		return
	}
	v.service.waits.Wake(id)
}

// Receive implements event.Receiver. An event for a hold that is not registered yet waits for it.
func (v *leashEvents) Receive(e event.Event) {
	s := v.service
	if e.Kind == event.Turn {
		s.waits.BeginTurn(e)
		return
	}
	h := s.holds.FindEvent(e)
	if h == nil && v.keep(e) {
		if h = s.holds.FindEvent(e); h != nil { // it was registered just now
			v.deliverPending(h)
			return
		}
	}
	switch {
	case h != nil:
		v.handle(h, e.Kind)
	case e.Kind == event.Watched, e.Kind == event.Broken: // the hold has ended
		v.service.releaser.AnswerLateWatcher(e.Token, e.Carrier)
	}
}

// keep keeps an event if it may be about a hold of this Leash that is not registered yet.
func (v *leashEvents) keep(e event.Event) bool {
	holds := v.service.holds
	if script.CarrierLeash(e.Carrier) != holds.Leash || e.Kind == event.Wanted && !holds.Notifying() {
		return false
	}
	v.pending.Keep(e)
	return true
}

// deliverPending handles the events that came before h was registered.
func (v *leashEvents) deliverPending(h *hold.Hold) {
	for _, kind := range v.pending.Take(h.Token, h.Carrier.Name) {
		v.handle(h, kind)
	}
}

// handle acts on an event about h. For most kinds the watchdog checks h.
func (v *leashEvents) handle(h *hold.Hold, kind string) {
	s := v.service
	switch kind {
	case event.Broken:
		s.spawn(func() { s.releaser.ObeyBreak(h) })
	case event.Watched:
		if !h.NoteRemoteWatch() {
			v.service.releaser.AnswerLateWatcher(h.Token, h.Carrier.Name)
		}
	case event.Wanted:
		h.ReportWanted()
	case event.Decremented:
		s.spawn(func() { s.recount(h) })
	default:
		s.watchdog.Check(&h.Watch)
	}
}

// recount lowers the count of h to that in Redis, because another Leash has released counts.
func (s *Service) recount(h *hold.Hold) {
	if !h.LockRequests(s.deadline()) {
		return
	}
	defer h.UnlockRequests()
	info, err := s.redis.Inspect(h.Lock(), s.deadline())
	if f, ok := info.Find(h.Token); err == nil && ok && f.Record.Carrier == h.Carrier.Name {
		h.LowerCount(f.Count)
	}
}

// Watch implements event.Holds.
func (v *leashEvents) Watch(lock script.Lock, token int64) (seen script.Hold, end <-chan string, cancel func()) {
	h := v.service.holds.Find(lock, hold.Selector{Token: token}.Means)
	if h == nil {
		return seen, nil, nil
	}
	told := h.WatchEnd()
	if told == nil {
		return seen, nil, nil
	}
	seen = script.Hold{Mode: h.Mode(), Owner: h.Owner(), Record: script.Record{Token: h.Token, Carrier: h.Carrier.Name}}
	return seen, told, func() { h.Unwatch(told) }
}

// GraceLeft implements event.Holds.
func (v *leashEvents) GraceLeft(key string) time.Duration { return v.service.graces.Left(key) }

// lossWait is a wait for the loss of the hold with that token.
func (v *leashEvents) lossWait(lock script.Lock, token int64) *event.LossWait {
	s := v.service
	return &event.LossWait{
		Redis: s.redis, Subscriptions: &v.Subscriptions, Holds: v, Lock: lock, Token: token,
		Interval: s.waits.Interval, MaxChecks: s.restorer.MaxSeeks,
	}
}
