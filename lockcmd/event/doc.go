// Package event is what Leashes tell each other about locks: events on their own channels, wake-ups
// on the channels of locks, and tombstones in Redis. With these, LOCK.AWAITLOSS learns of the end
// of a hold on any Leash.
//
//	event.go           the text of an event
//	subscriptions.go   the subscribed channels, and who gets their messages
//	tombstone.go       why a hold is gone: the texts in Redis
//	ends.go            how the last holds of this Leash ended
//	loss_wait.go       wait for the loss of a hold
//	end_reason.go      how a hold ended that Redis does not have
//
// The package does not know the holds of its own Leash. It asks for them by the interface Holds,
// and gives messages to the interface Receiver.
//
// # Concurrency
//
// Subscriptions and Ends are safe for concurrent use. Each has one mutex, which is held for a few
// lines and never during a call of Redis or of a Receiver. So any other mutex may be held when they
// are called. Subscriptions calls Subscriber.Subscribe with its mutex held, which does not block. A
// Receiver is called by the goroutine that brings the message. It must not block, and may call the
// package. A LossWait belongs to one goroutine.
package event
