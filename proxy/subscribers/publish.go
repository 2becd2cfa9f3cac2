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

// Publish answers PUBLISH and SPUBLISH. Redis answers with a count of receivers. Leash replaces its
// own subscriptions in the count by its clients. keep returns the bytes of the command for use
// after it. It returns false when the session ends.
func Publish(r *route.Router, x *pubsub.Exchange, keep func([]byte) []byte, c *command.Command,
	cmd resp.Command) bool {
	kind, counts := kindOf(x, c, cmd)
	if !counts {
		return r.Relay(c, cmd)
	}
	slot := slots.Any
	if kind == pubsub.Shard {
		slot = slots.Of(cmd.Args[1])
	}
	channel := string(cmd.Args[1])
	p := call.NewPart(keep(cmd.Raw), slot)
	return r.RelayPart(p, len(cmd.Raw), merge.Rewritten(func(reply []byte) []byte {
		return published(x, p.Node(), kind, channel, reply)
	}))
}

// kindOf returns the kind of channel that the command publishes to. counts reports whether the
// reply counts subscriptions of Leash.
func kindOf(x *pubsub.Exchange, c *command.Command, cmd resp.Command) (kind pubsub.Kind, counts bool) {
	switch c.Name {
	case "publish":
		kind = pubsub.Channel
	case "spublish":
		kind = pubsub.Shard
	default:
		return 0, false
	}
	return kind, len(cmd.Args) == 3 && x.Listens(kind, cmd.Args[1])
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
	kind, counts := kindOf(x, c, cmd)
	if !counts {
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
