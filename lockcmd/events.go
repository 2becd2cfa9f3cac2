package lockcmd

import (
	"cmp"
	"context"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// leashEvents is what this Leash hears from others about locks, and what it tells them about the
// ends of its holds. It implements event.Receiver and event.Holds.
type leashEvents struct {
	event.Subscriptions
	service *Service
	// lossWaitsEnd is done after endLossWaits.
	lossWaitsEnd context.Context
	endLossWaits context.CancelFunc
}

// listen sets what the subscriptions need.
func (v *leashEvents) listen(s *Service, from event.Subscriber) {
	v.service, v.From, v.To = s, from, v
	v.Own = "leash:" + s.Holds.Leash
	v.lossWaitsEnd, v.endLossWaits = context.WithCancel(context.Background())
	v.Plain, v.Sharded = s.cfg.Publish != PublishSharded, s.cfg.Publish != PublishPlain
}

// Wake implements event.Receiver. It wakes the heads of the channel's queues.
func (v *leashEvents) Wake(lock script.Lock, channel string, reserved bool) {
	id := wait.QueueID{Lock: lock, Channel: channel}
	if reserved {
		v.service.Waits.Reserved(id)
		return
	}
	v.service.Waits.Wake(id)
}

// Receive implements event.Receiver. An event that overtakes the reply to the grant of its hold is
// ignored, like one that got lost (R30).
func (v *leashEvents) Receive(e event.Event) {
	s := v.service
	if e.Kind == event.Turn {
		s.Waits.BeginTurn(e)
		return
	}
	h := s.Holds.FindEvent(e)
	switch {
	case h != nil:
		v.handle(h, e.Kind)
	case e.Kind == event.Watched, e.Kind == event.Broken: // the hold has ended
		s.Releaser.AnswerLateWatcher(e.Token, e.Carrier)
	}
}

// handle acts on an event about h. For most kinds the watchdog checks h.
func (v *leashEvents) handle(h *hold.Hold, kind string) {
	s := v.service
	switch kind {
	case event.Broken:
		s.tasks.Spawn(func() { s.Releaser.ObeyBreak(h) })
	case event.Watched:
		if !h.NoteRemoteWatch() {
			s.Releaser.AnswerLateWatcher(h.Token, h.Carrier.Name)
		}
	case event.Wanted:
		h.ReportWanted()
	case event.Decremented:
		s.tasks.Spawn(func() { s.recount(h) })
	default:
		s.Watchdog.Check(&h.Watch)
	}
}

// recount lowers the count of h to that in Redis, because another Leash has released counts.
func (s *Service) recount(h *hold.Hold) {
	if !h.LockRequests(s.deadline()) {
		return
	}
	defer h.UnlockRequests()
	info, err := s.Redis.Inspect(h.Lock(), s.deadline())
	if f, ok := info.Find(h.Token); err == nil && ok && f.Record.Carrier == h.Carrier.Name {
		h.LowerCount(f.Count)
	}
}

// Watch implements event.Holds.
func (v *leashEvents) Watch(lock script.Lock, token int64) (seen script.Hold, end <-chan string, cancel func()) {
	h := v.service.Holds.Find(lock, hold.Selector{Token: token}.Means)
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
func (v *leashEvents) GraceLeft(key string) time.Duration { return v.service.Graces.Left(key) }

// LossWait is a wait for the loss of the hold with that token.
func (v *leashEvents) LossWait(lock script.Lock, token int64) *event.LossWait {
	s := v.service
	return &event.LossWait{
		Redis: s.Redis, Subscriptions: &v.Subscriptions, Holds: v, Lock: lock, Token: token,
		Interval: s.Waits.Interval, MaxChecks: s.Releaser.MaxSeeks,
	}
}

// notify runs LOCK.NOTIFY. Notices about present waiters come after its answer.
func (c *Carrier) notify(_ context.Context, dst []byte, args [][]byte) []byte {
	switch resp.Word(args[1]) {
	case "OFF":
		c.StopPushes()
	case "ON":
		if !c.StartPushes() {
			return resp.AppendError(dst, refusal.NoPushes)
		}
	default:
		return resp.AppendError(dst, refusal.Syntax)
	}
	return append(dst, "+OK\r\n"...)
}

// awaitLoss runs LOCK.AWAITLOSS: it waits until the hold with a token is lost, on whatever
// connection and Leash it is. A regular end of the hold ends the wait too.
func (c *Carrier) awaitLoss(ctx context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(args, awaitLossWords)
	waits, block, wrong := o.parseBlock()
	if msg = cmp.Or(msg, wrong); msg == "" && (!waits || o.Token == 0) {
		msg = refusal.Syntax
	}
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	if !c.BeginWait() {
		return resp.AppendError(dst, refusal.TooMany)
	}
	defer c.EndWait()
	if block == 0 {
		block = script.MaxTTL
	}
	ctx, cancel := context.WithTimeout(ctx, block)
	defer cancel()
	c.OnUnblock(cancel)
	defer context.AfterFunc(c.service.Events.lossWaitsEnd, guard.Func(c.service.log, "end of a wait", cancel))()
	reason, err := c.service.Events.LossWait(c.id(key), o.Token).Run(ctx)
	fails := c.EndWait()
	switch {
	case fails && reason == "":
		return resp.AppendError(dst, refusal.Unblocked)
	case reason == "" && c.service.Events.lossWaitsEnd.Err() != nil:
		return resp.AppendError(dst, refusal.DrainingWatch)
	case err != nil:
		return c.replyError(dst, err, refusal.NotAccepted)
	case reason == "":
		return append(dst, resp.NilBulk...)
	}
	return resp.AppendBulk(dst, reason)
}

// checkWanted tells the owner of h if somebody on this Leash waits for the lock.
func (s *Service) checkWanted(h *hold.Hold) {
	if h.Notifies() && s.Waiting(h.Lock()) > 0 {
		h.ReportWanted()
	}
}
