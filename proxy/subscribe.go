package proxy

import (
	"errors"

	"leash/internal/limits"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
)

// subscriptionHandlers are the commands that begin and end subscriptions.
func subscriptionHandlers() handlers {
	return handlers{
		"SUBSCRIBE":    subscriptions(pubsub.Channel, true),
		"PSUBSCRIBE":   subscriptions(pubsub.Pattern, true),
		"SSUBSCRIBE":   subscriptions(pubsub.Shard, true),
		"UNSUBSCRIBE":  subscriptions(pubsub.Channel, false),
		"PUNSUBSCRIBE": subscriptions(pubsub.Pattern, false),
		"SUNSUBSCRIBE": subscriptions(pubsub.Shard, false),
	}
}

// msgShardInMulti is Redis's answer to SSUBSCRIBE at EXEC. The other subscribe commands do not get
// it.
const msgShardInMulti = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"

// subscriptions returns the handler that begins or ends subscriptions of a kind. The handler is a
// barrier: the confirmations come after all earlier replies.
func subscriptions(kind pubsub.Kind, join bool) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		switch {
		case !join && !s.router.Ready(c, cmd):
			return true
		case !c.ArityOK(cmd.Args):
			return s.router.WrongArity(c)
		case !s.router.Authenticated():
			return s.fail(command.NoAuth)
		}
		if kind == pubsub.Shard && join && s.calls.SendsElsewhere() {
			return s.fail(msgShardInMulti)
		}
		if !s.router.Barrier() {
			return false
		}
		s.out.Flush()
		if join {
			s.calls.HoldPushes()
			defer s.calls.ReleasePushes()
		}
		frames, ok := s.subscription(kind, join, cmd.Args[1:])
		return ok && s.confirm(frames)
	}
}

// confirm gives the client the frames that subscription returned. Confirmations are not replies, so
// CLIENT REPLY does not suppress them. It may be called only while no call is in flight.
func (s *session) confirm(frames []byte) bool {
	if !s.calls.Muted || frames[0] == '-' {
		return s.answer(frames)
	}
	return s.calls.Append(frames)
}

// subscription begins or ends subscriptions. It returns their confirmations, or the error that
// answers the command. It blocks until Redis has answered. ok is false when the session ends. When
// it begins a subscription, the caller holds messages back (HoldPushes) until the client has got
// the frames, so each message comes after its confirmation.
func (s *session) subscription(kind pubsub.Kind, join bool, args [][]byte) (frames []byte, ok bool) {
	listener := s.listener.Load()
	if listener == nil {
		listener = s.server.exchange.Listener((*subscriber)(s))
		s.listener.Store(listener)
	}
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = string(arg)
	}
	if !join {
		return s.unsubscribe(listener, kind, names), true
	}
	if refusal, ok := s.roomForSubscriptions(len(names)); !ok {
		return refusal, true
	}
	counts, refusal, err := listener.Subscribe(s.ctx, s.router.Lane.User, kind, names)
	s.enterSubscribed()
	switch {
	case refusal != nil:
		return refusal, true
	case errors.Is(err, dial.ErrRefused):
		return resp.AppendError(nil, call.ErrorRefused), true
	case errors.Is(err, pubsub.ErrUnreachable):
		return resp.AppendError(nil, merge.NotSent), true
	case err != nil:
		return nil, false
	}
	for i, name := range names {
		frames = s.appendConfirmation(frames, kind.Joined(), &name, counts[i])
	}
	return frames, true
}

// unsubscribe ends the named subscriptions. Without names, it ends all of a kind. It returns one
// confirmation for each. If there was none, it returns one confirmation without a name.
func (s *session) unsubscribe(listener *pubsub.Listener, kind pubsub.Kind, names []string) (frames []byte) {
	if len(names) == 0 {
		names = listener.Names(kind)
	}
	counts := listener.Unsubscribe(s.ctx, kind, names)
	s.enterSubscribed()
	for i, name := range names {
		frames = s.appendConfirmation(frames, kind.Left(), &name, counts[i])
	}
	if len(names) == 0 {
		frames = s.appendConfirmation(frames, kind.Left(), nil, listener.Count(kind))
	}
	return frames
}

// appendConfirmation appends the confirmation of one change: *3 in RESP2, >3 in RESP3.
func (s *session) appendConfirmation(dst []byte, word string, name *string, count int) []byte {
	start := len(dst)
	dst = resp.AppendArray(dst, 3)
	dst = resp.AppendBulk(dst, word)
	null := resp.NilBulk
	if s.router.Lane.RESP3 {
		dst[start], null = '>', resp.Null
	}
	if name == nil {
		dst = append(dst, null...)
	} else {
		dst = resp.AppendBulk(dst, *name)
	}
	return resp.AppendInt(dst, int64(count))
}

// subscribedTo returns the number of the session's subscriptions. It may be called from any
// goroutine that does not hold mu.
func (s *session) subscribedTo() (channels, patterns, shards int) {
	if listener := s.listener.Load(); listener != nil {
		return listener.Tally()
	}
	return 0, 0, 0
}

// enterSubscribed sets or clears modeSubscribed according to the subscriptions and the protocol.
func (s *session) enterSubscribed() {
	channels, patterns, shards := s.subscribedTo()
	s.modes &^= modeSubscribed
	if channels+patterns+shards > 0 && !s.router.Lane.RESP3 {
		s.modes |= modeSubscribed
	}
	if q := s.quota; q != nil {
		q.recount(limits.Subscriptions, &q.subscriptions, channels+patterns+shards)
	}
}

// dropSubscriptions ends all subscriptions without confirmations.
func (s *session) dropSubscriptions() {
	if listener := s.listener.Load(); listener != nil {
		listener.UnsubscribeAll()
		if q := s.quota; q != nil {
			q.recount(limits.Subscriptions, &q.subscriptions, 0)
		}
	}
	s.modes &^= modeSubscribed
}

// msgSubscribed refuses a command in RESP2 subscribe mode.
const msgSubscribed = ": only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"

// whileSubscribed handles a command in RESP2 subscribe mode. It makes Redis's checks in Redis's
// order.
func (s *session) whileSubscribed(c *command.Command, cmd resp.Command) (handled, ok bool) {
	if c == nil || c.Subs != nil && len(cmd.Args) > 1 {
		return false, true // an unknown command or subcommand
	}
	switch c.Name {
	case "ping", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "quit",
		"reset":
		return false, true
	}
	if !s.router.Ready(c, cmd) {
		return true, true
	}
	message := "Can't execute '" + c.Name + "'" + msgSubscribed
	if c.Name == "exec" {
		s.tx.End() // an EXEC that is refused ends WATCH too
		return true, s.fail(command.ExecRefused(message))
	}
	return true, s.fail("ERR " + message)
}

// pong answers PING in RESP2 subscribe mode, in the form of a message.
func (s *session) pong(cmd resp.Command) bool {
	b := resp.AppendBulk(resp.AppendArray(s.scratch[:0], 2), "pong")
	if len(cmd.Args) == 2 {
		b = resp.AppendBulk(b, cmd.Args[1])
	} else {
		b = resp.AppendBulk(b, "")
	}
	s.scratch = b
	return s.answer(b)
}
