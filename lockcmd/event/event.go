package event

import (
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script"
)

// Leashes send each other events on their own channels, about holds that they ended, moved or
// changed, and about turns. An event may be lost or forged, so Redis is asked before anything is
// done about it (R25).

// These kinds of events have no tombstone. The texts of tombstones are kinds of events too.
const (
	// Watched tells a carrier's Leash that somebody on another Leash waits for the loss of its hold
	// and will read a tombstone.
	Watched = "watched"
	// Wanted tells a carrier's Leash that somebody on another Leash waits for the lock.
	Wanted = "wanted"
	// Decremented tells a carrier's Leash that counts of its hold were released by another way, and
	// that some remain.
	Decremented = "lessened"
	// Turn tells a Leash that a free lock is reserved for it. The token is the database, and the
	// carrier says which kind of waiters it is about.
	Turn = "turn"
)

// Event is a message for one Leash.
type Event struct {
	Kind    string
	Token   int64
	Carrier string
	Key     string
}

// Text is the event as it is published: kind, token, carrier and key, with one space between.
func Text(kind string, token int64, carrier, key string) string {
	return kind + " " + strconv.FormatInt(token, 10) + " " + carrier + " " + key
}

// Send publishes an event about a hold for the Leash of its carrier. It may get lost. Send blocks
// until Redis answers, or until the given time.
func Send(redis *script.Client, kind string, r script.Ref, until time.Time) {
	text := Text(kind, r.Token, r.Carrier, r.Lock.Key)
	_ = redis.PublishEvent(r.Lock, script.CarrierChannel(r.Carrier), text, until)
}

// Parse reads a published event.
func Parse(text string) (e Event, ok bool) {
	f := strings.SplitN(text, " ", 4)
	if len(f) != 4 {
		return Event{}, false
	}
	token, err := strconv.ParseInt(f[1], 10, 64)
	return Event{Kind: f[0], Token: token, Carrier: f[2], Key: f[3]}, err == nil
}

// isTurnMessage reports whether a message on a lock's channel says that the lock is free, but
// reserved for a Leash. That Leash gets an event besides.
func isTurnMessage(message []byte) bool {
	return len(message) > 1 && message[0] == '0'
}
