package pubsub

import "leash/proxy/resp"

// Kind is one of the three kinds of subscriptions.
type Kind uint8

const (
	Channel Kind = iota // SUBSCRIBE
	Pattern             // PSUBSCRIBE
	Shard               // SSUBSCRIBE: channels that belong to a slot
	kinds
)

// kindWords are Redis's words for each kind, in commands and in frames.
var kindWords = [kinds]struct{ message, join, leave string }{
	{"message", "subscribe", "unsubscribe"},
	{"pmessage", "psubscribe", "punsubscribe"},
	{"smessage", "ssubscribe", "sunsubscribe"},
}

// Joined is the word in the confirmation of a subscription.
func (k Kind) Joined() string { return kindWords[k].join }

// Left is the word in the confirmation of its end.
func (k Kind) Left() string { return kindWords[k].leave }

// command is the command that begins or ends subscriptions of a kind.
func (k Kind) command(join bool, names []string) []byte {
	word := kindWords[k].leave
	if join {
		word = kindWords[k].join
	}
	return resp.AppendCommand(nil, append([]string{word}, names...)...)
}
