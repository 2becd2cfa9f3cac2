package subscribers

import (
	"errors"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
)

// msgShardInMulti is Redis's answer to SSUBSCRIBE at EXEC. The other subscribe commands do not get
// it.
const msgShardInMulti = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"

// Change answers a command that begins or ends subscriptions. It returns false when the session
// ends.
type Change func(s *Subscriber, c *command.Command, cmd resp.Command) bool

// Changes are the commands that begin and end subscriptions, by upper-case name.
func Changes() map[string]Change {
	return map[string]Change{
		"SUBSCRIBE":    change(pubsub.Channel, true),
		"PSUBSCRIBE":   change(pubsub.Pattern, true),
		"SSUBSCRIBE":   change(pubsub.Shard, true),
		"UNSUBSCRIBE":  change(pubsub.Channel, false),
		"PUNSUBSCRIBE": change(pubsub.Pattern, false),
		"SUNSUBSCRIBE": change(pubsub.Shard, false),
	}
}

// change begins or ends subscriptions of a kind. It is a barrier: the confirmations come after all
// earlier replies.
func change(kind pubsub.Kind, join bool) Change {
	return func(s *Subscriber, c *command.Command, cmd resp.Command) bool {
		switch {
		case !join && !s.Router.Ready(c, cmd):
			return true
		case !c.ArityOK(cmd.Args):
			return s.Router.WrongArity(c)
		case !s.Router.Authenticated():
			return s.Router.Fail(command.NoAuth)
		case kind == pubsub.Shard && join && s.Calls.SendsElsewhere():
			return s.Router.Fail(msgShardInMulti)
		case !s.Router.Barrier():
			return false
		}
		s.Out.Flush()
		if join {
			s.Calls.DelayPushes()
			defer s.Calls.AllowPushes()
		}
		frames, ok := s.subscription(kind, join, cmd.Args[1:])
		return ok && s.confirm(frames)
	}
}

// confirm gives the client the frames that subscription returned. Confirmations are not replies, so
// CLIENT REPLY does not suppress them. It may be called only while no call is in flight.
func (s *Subscriber) confirm(frames []byte) bool {
	if !s.Calls.Muted || frames[0] == '-' {
		return s.Router.Answer(frames)
	}
	return s.Calls.Append(frames)
}

// subscription begins or ends subscriptions. It returns their confirmations, or the error that
// answers the command. It blocks until Redis has answered. ok is false when the session ends. When
// it begins a subscription, the caller delays messages (DelayPushes) until the client has got
// the frames, so each message comes after its confirmation.
func (s *Subscriber) subscription(kind pubsub.Kind, join bool, args [][]byte) (frames []byte, ok bool) {
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = string(arg)
	}
	if !join {
		return s.unsubscribe(kind, names), true
	}
	if refusal := s.Session.Room(len(names)); refusal != "" {
		return resp.AppendError(nil, refusal), true
	}
	counts, refusal, err := s.listener.Subscribe(s.Context, s.Router.Lane.User, kind, names)
	s.Session.Count(s.Len())
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
func (s *Subscriber) unsubscribe(kind pubsub.Kind, names []string) (frames []byte) {
	if len(names) == 0 {
		names = s.listener.Names(kind)
	}
	counts := s.listener.Unsubscribe(s.Context, kind, names)
	s.Session.Count(s.Len())
	for i, name := range names {
		frames = s.appendConfirmation(frames, kind.Left(), &name, counts[i])
	}
	if len(names) == 0 {
		frames = s.appendConfirmation(frames, kind.Left(), nil, s.listener.Count(kind))
	}
	return frames
}

// appendConfirmation appends the confirmation of one change: *3 in RESP2, >3 in RESP3.
func (s *Subscriber) appendConfirmation(dst []byte, word string, name *string, count int) []byte {
	start := len(dst)
	dst = resp.AppendArray(dst, 3)
	dst = resp.AppendBulk(dst, word)
	null := resp.NilBulk
	if s.Router.Lane.RESP3 {
		dst[start], null = '>', resp.Null
	}
	if name == nil {
		dst = append(dst, null...)
	} else {
		dst = resp.AppendBulk(dst, *name)
	}
	return resp.AppendInt(dst, int64(count))
}

// Refusal returns the error for a command that is not allowed in RESP2 subscribe mode. It is empty
// if the command is allowed, or for an unknown command or subcommand. c is nil for a command in no
// table.
func Refusal(c *command.Command, cmd resp.Command) string {
	if c == nil || c.Subs != nil && len(cmd.Args) > 1 {
		return ""
	}
	switch c.Name {
	case "ping", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "quit",
		"reset":
		return ""
	}
	message := "Can't execute '" + c.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are " +
		"allowed in this context"
	if c.Name == "exec" {
		return command.ExecRefused(message)
	}
	return "ERR " + message
}

// Pong is the reply to PING in RESP2 subscribe mode, in the form of a message.
func Pong(args [][]byte) []byte {
	text := ""
	if len(args) == 2 {
		text = string(args[1])
	}
	return resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 2), "pong"), text)
}
