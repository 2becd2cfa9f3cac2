package proxy

import (
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/transaction"
	"leash/proxy/upstream"
)

// publishHandlers are the commands that publish. Redis answers with a count of receivers. Leash
// replaces its own subscriptions in the count by its clients.
func publishHandlers() handlers {
	return handlers{
		"PUBLISH":  (*session).publishPlain,
		"SPUBLISH": (*session).publishSharded,
	}
}

func (s *session) publishPlain(c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !s.server.exchange.Listens(pubsub.Channel, cmd.Args[1]) {
		return s.router.RelayAny(cmd)
	}
	return s.publishTo(cmd, pubsub.Channel, call.AnySlot)
}

func (s *session) publishSharded(c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !s.server.exchange.Listens(pubsub.Shard, cmd.Args[1]) {
		return s.router.Relay(c, cmd)
	}
	return s.publishTo(cmd, pubsub.Shard, int(upstream.Slot(cmd.Args[1])))
}

// publishTo sends the command as an ordinary command and corrects the count in the reply.
func (s *session) publishTo(cmd resp.Command, kind pubsub.Kind, slot int) bool {
	channel := string(cmd.Args[1])
	p := call.NewPart(nil, slot)
	p.Request = s.input.keep(cmd.Raw)
	return s.router.RelayPart(p, len(cmd.Raw), merge.Rewritten(func(reply []byte) []byte {
		return s.server.published(p.Node(), kind, channel, reply)
	}))
}

// published returns the reply to PUBLISH or SPUBLISH with Leash's own subscriptions replaced by its
// clients. It is nil if the node's reply is not a number.
func (s *Server) published(node *upstream.Node, kind pubsub.Kind, channel string, reply []byte) []byte {
	n, ok := resp.Int(reply)
	if !ok {
		return nil
	}
	ours, clients := s.exchange.Receivers(node, kind, channel)
	return resp.AppendInt(nil, max(n-int64(ours), 0)+int64(clients))
}

// publishedInside corrects the reply to a command inside a transaction. It returns nil if the reply
// is right.
func (s *Server) publishedInside(c *command.Command, cmd resp.Command) transaction.Amend {
	kind := pubsub.Channel
	switch {
	case c.Name == "spublish":
		kind = pubsub.Shard
	case c.Name != "publish":
		return nil
	}
	if len(cmd.Args) != 3 || !s.exchange.Listens(kind, cmd.Args[1]) {
		return nil
	}
	channel := string(cmd.Args[1])
	return func(node *upstream.Node, reply []byte) []byte {
		if corrected := s.published(node, kind, channel, reply); corrected != nil {
			return corrected
		}
		return reply
	}
}
