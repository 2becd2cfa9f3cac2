package subscribers

import (
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
)

// Publish answers PUBLISH. Redis answers with a count of receivers. Leash replaces its own
// subscriptions in the count by its clients. keep returns the bytes of the command for use after
// it. It returns false when the session ends.
func Publish(r *route.Router, x *pubsub.Exchange, keep func([]byte) []byte, cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !x.Listens(pubsub.Channel, cmd.Args[1]) {
		return r.RelayAny(cmd)
	}
	return publish(r, x, keep(cmd.Raw), cmd, pubsub.Channel, slots.Any)
}

// PublishSharded is Publish for SPUBLISH.
func PublishSharded(r *route.Router, x *pubsub.Exchange, keep func([]byte) []byte, c *command.Command,
	cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !x.Listens(pubsub.Shard, cmd.Args[1]) {
		return r.Relay(c, cmd)
	}
	return publish(r, x, keep(cmd.Raw), cmd, pubsub.Shard, slots.Of(cmd.Args[1]))
}

// publish sends a request as an ordinary command and corrects the count in the reply.
func publish(r *route.Router, x *pubsub.Exchange, request []byte, cmd resp.Command, kind pubsub.Kind,
	slot slots.Slot) bool {
	channel := string(cmd.Args[1])
	p := call.NewPart(request, slot)
	return r.RelayPart(p, len(cmd.Raw), merge.Rewritten(func(reply []byte) []byte {
		return published(x, p.Node(), kind, channel, reply)
	}))
}

// published returns the reply to PUBLISH or SPUBLISH with Leash's own subscriptions replaced by its
// clients. It is nil if the node's reply is not a number.
func published(x *pubsub.Exchange, node *links.Node, kind pubsub.Kind, channel string, reply []byte) []byte {
	n, ok := resp.Int(reply)
	if !ok {
		return nil
	}
	ours, clients := x.Receivers(node, kind, channel)
	return resp.AppendInt(nil, max(n-int64(ours), 0)+int64(clients))
}

// Inside returns what corrects the reply to a command inside a transaction, or nil if the reply is
// right.
func Inside(x *pubsub.Exchange, c *command.Command, cmd resp.Command) func(*links.Node, []byte) []byte {
	kind := pubsub.Channel
	switch {
	case c.Name == "spublish":
		kind = pubsub.Shard
	case c.Name != "publish":
		return nil
	}
	if len(cmd.Args) != 3 || !x.Listens(kind, cmd.Args[1]) {
		return nil
	}
	channel := string(cmd.Args[1])
	return func(node *links.Node, reply []byte) []byte {
		if corrected := published(x, node, kind, channel, reply); corrected != nil {
			return corrected
		}
		return reply
	}
}
