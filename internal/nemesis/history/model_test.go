package history

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// testHistory is a history that a test makes. Its times are in ms.
type testHistory []porcupine.Operation

func at(o Op, call, ret int64) porcupine.Operation {
	if ret != Never {
		ret *= int64(time.Millisecond)
	}
	return porcupine.Operation{ClientId: o.Hold, Input: o, Call: call * int64(time.Millisecond), Return: ret}
}

func granted(mode string, hold int, token, call, ret int64) porcupine.Operation {
	return at(Op{Action: Grant, Mode: mode, Hold: hold, Token: token}, call, ret)
}

func ended(mode string, hold int, call, ret int64) porcupine.Operation {
	return at(Op{Action: End, Mode: mode, Hold: hold}, call, ret)
}

func counted(a Action, hold int, call, ret int64) porcupine.Operation {
	return at(Op{Action: a, Mode: "plain", Hold: hold, Counted: a == End}, call, ret)
}

func owned(o porcupine.Operation, owner string) porcupine.Operation {
	in := o.Input.(Op)
	in.Owner = owner
	o.Input = in
	return o
}

// asked returns a request about a counter or a latch, with its reply.
func asked(a Action, n, left, call, ret int64) porcupine.Operation {
	return at(Op{Action: a, N: n, Left: left}, call, ret)
}

// unknown returns a request about a counter or a latch with an unknown outcome.
func unknown(a Action, number int, n, call int64) porcupine.Operation {
	return at(Op{Action: a, Hold: number, N: n, Unknown: true}, call, Never)
}

// TestModels: a model allows what its kind of lock allows. It refuses what a broken script may do.
func TestModels(t *testing.T) {
	for _, row := range []struct {
		aspect property
		name   string
		legal  bool
		scene  testHistory
	}{
		{mutex, "one after the other", true, testHistory{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, 6), granted("plain", 2, 11, 3, 8), ended("plain", 2, 9, Never),
		}},
		{mutex, "granted after a release with an unknown outcome", true, testHistory{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, Never), granted("plain", 2, 11, 5, 50),
		}},
		{mutex, "a release without a check of the owner ends another's hold, and a third is granted", false, testHistory{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, Never), granted("plain", 2, 11, 3, 4), granted("plain", 3, 12, 6, 7), ended("plain", 2, 9, 10),
		}},
		{mutex, "granted while another client believes in its hold", false, testHistory{
			granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 2, 3), ended("plain", 1, 5, 6), ended("plain", 2, 9, Never),
		}},
		{fence, "tokens rise", true, testHistory{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 0, 5), granted("plain", 3, 12, 2, 6)}},
		{fence, "a token that does not rise", false, testHistory{granted("plain", 1, 10, 0, 1), granted("plain", 2, 10, 4, 5)}},
		{fence, "a token that falls", false, testHistory{granted("plain", 1, 11, 0, 1), granted("plain", 2, 10, 4, 5)}},
		{fence, "two waiters at a time", true, testHistory{granted("plain", 1, 11, 0, 9), granted("plain", 2, 10, 1, 8)}},
		{reentrant, "as many releases as acquires", true, testHistory{
			granted("plain", 1, 10, 0, 1), counted(Reacquire, 1, 2, 3), counted(InnerRelease, 1, 4, 5), counted(End, 1, 6, 7), granted("plain", 2, 11, 7, 8),
		}},
		{reentrant, "the hold ends with one release too few", false, testHistory{
			granted("plain", 1, 10, 0, 1), counted(Reacquire, 1, 2, 3), counted(End, 1, 6, 7),
		}},
		{reentrant, "an acquire that was not counted", false, testHistory{
			granted("plain", 1, 10, 0, 1), counted(InnerRelease, 1, 4, 5), counted(End, 1, 6, 7),
		}},
		{reentrant, "acquired again after its end", false, testHistory{
			granted("plain", 1, 10, 0, 1), counted(End, 1, 2, 3), counted(Reacquire, 1, 4, 5),
		}},
		{counting, "what is given can be taken", true, testHistory{
			asked(Set, 2, 1, 0, 1), asked(Take, 2, 1, 2, 3), asked(Give, 1, 1, 4, 8), asked(Take, 1, 1, 4, 6), asked(Read, 0, 0, 9, 10),
		}},
		{counting, "set again", true, testHistory{asked(Set, 2, 1, 0, 1), asked(Set, 5, 0, 2, 3), asked(Read, 0, 2, 4, 5)}},
		{counting, "set again, with an effect", false, testHistory{asked(Set, 2, 1, 0, 1), asked(Set, 5, 0, 2, 3), asked(Read, 0, 5, 4, 5)}},
		{counting, "more taken than there is", false, testHistory{asked(Set, 1, 1, 0, 1), asked(Take, 1, 1, 2, 3), asked(Take, 1, 1, 2, 3)}},
		{counting, "given twice", false, testHistory{asked(Set, 1, 1, 0, 1), asked(Give, 1, 3, 2, 3)}},
		{counting, "outcome unknown, not done", true, testHistory{
			asked(Set, 1, 1, 0, 1), unknown(Give, 7, 1, 2), unknown(Take, 8, 1, 2), asked(Read, 0, 1, 4, 5),
		}},
		{counting, "outcome unknown, done late", true, testHistory{
			asked(Set, 1, 1, 0, 1), unknown(Give, 7, 1, 2), asked(Read, 0, 1, 4, 5), asked(Read, 0, 2, 6, 7),
		}},
		{counting, "outcome unknown, done twice", false, testHistory{asked(Set, 1, 1, 0, 1), unknown(Give, 7, 1, 2), asked(Read, 0, 3, 4, 5)}},
		{counting, "taken for a client that was gone, and given back", true, testHistory{
			asked(Set, 1, 1, 0, 1), unknown(Take, 7, 1, 2), unknown(GiveBack, 7, 1, 2), asked(Read, 0, 0, 4, 5), asked(Read, 0, 1, 6, 7),
		}},
		{counting, "given back without being taken", false, testHistory{
			asked(Set, 1, 1, 0, 1), unknown(Take, 7, 1, 2), unknown(GiveBack, 7, 1, 2), asked(Read, 0, 2, 4, 5),
		}},
		{latching, "counted down, and set again", true, testHistory{
			asked(Set, 2, 1, 0, 1), asked(CountDown, 0, 1, 2, 3), asked(Await, 0, 1, 2, 6), asked(CountDown, 0, 0, 4, 5), asked(Set, 3, 1, 7, 8), asked(Read, 0, 3, 9, 10),
		}},
		{latching, "not below zero", true, testHistory{asked(Set, 1, 1, 0, 1), asked(CountDown, 0, 0, 2, 3), asked(CountDown, 0, 0, 4, 5), asked(Set, 1, 1, 6, 7)}},
		{latching, "a waiter goes on before zero", false, testHistory{
			asked(Set, 2, 1, 0, 1), asked(CountDown, 0, 1, 2, 3), asked(Await, 0, 1, 2, 4), asked(CountDown, 0, 0, 5, 6),
		}},
		{latching, "one count down counts twice", false, testHistory{asked(Set, 2, 1, 0, 1), asked(CountDown, 0, 0, 2, 3)}},
		{latching, "two counts down with the same reply", false, testHistory{asked(Set, 3, 1, 0, 1), asked(CountDown, 0, 2, 2, 5), asked(CountDown, 0, 2, 2, 5)}},
		{latching, "set while there is a count", false, testHistory{asked(Set, 3, 1, 0, 1), asked(Set, 2, 1, 2, 3)}},
		{readWrite, "readers together", true, testHistory{
			granted("read", 1, 10, 0, 1), granted("read", 2, 11, 0, 2), ended("read", 1, 5, 6), ended("read", 2, 5, 6), granted("write", 3, 12, 6, 8),
		}},
		{readWrite, "a writer beside a reader", false, testHistory{
			granted("read", 1, 10, 0, 1), granted("write", 2, 11, 2, 3), ended("read", 1, 5, 6),
		}},
		{readWrite, "a writer also reads, and still reads after its write", true, testHistory{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "me"), owned(ended("write", 1, 4, 5), "me"),
			granted("read", 3, 12, 6, 7),
		}},
		{readWrite, "a reader beside another's write", false, testHistory{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "you"), owned(ended("write", 1, 4, 5), "me"),
		}},
		{semaphore, "as many permits as there are", true, testHistory{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), ended("permit", 2, 2, 3), granted("permit", 4, 0, 2, 9),
		}},
		{semaphore, "one permit too many", false, testHistory{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), granted("permit", 4, 0, 2, 9), ended("permit", 2, 10, 11),
		}},
		{semaphore, "two permits too many, and none is given back", false, testHistory{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), granted("permit", 4, 0, 2, 3), granted("permit", 5, 0, 2, 3),
		}},
	} {
		if got := row.aspect.check(row.aspect.of(row.scene), checkTimeout) == porcupine.Ok; got != row.legal {
			t.Errorf("%s: %s: got %v, want %v", row.aspect.name, row.name, got, row.legal)
		}
	}
}

// TestForgottenHoldsAreExcepted: a hold that Redis forgot does not count as held. That is so only
// for holds of the time when Redis forgot, and only until the client must have been told.
func TestForgottenHoldsAreExcepted(t *testing.T) {
	ms := int64(time.Millisecond)
	conflict := testHistory{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 5, 6), ended("plain", 1, 8, Never), ended("plain", 2, 9, Never)}
	late := testHistory{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 5, 6), ended("plain", 1, 60_000, Never), ended("plain", 2, 60_001, Never)}
	flush, other := &interval{from: 2 * ms, to: 3 * ms}, &interval{key: "other", from: 2 * ms, to: 3 * ms}
	failover := &interval{from: 2 * ms, to: 3 * ms, failover: true}
	for _, row := range []struct {
		name     string
		forget   *interval
		replicas bool
		scene    testHistory
		legal    bool
	}{
		{"nothing", other, false, conflict, false},
		{"flushed", flush, false, conflict, true},
		{"this lock alone", &interval{key: "k", from: 2 * ms, to: 3 * ms}, false, conflict, true},
		{"later", &interval{from: 20 * ms, to: 30 * ms}, false, conflict, false},
		{"broken, and reported", &interval{from: 2 * ms, to: 3 * ms, reported: true}, false, conflict, false},
		{"failed over", failover, false, conflict, true},
		{"failed over, and a replica had it", failover, true, conflict, false},
		{"flushed, with replicas", flush, true, conflict, true},
		{"believed in for too long", flush, false, late, false},
	} {
		h := NewHistory(&FaultTimeline{})
		h.forgets = []*interval{row.forget}
		h.redisHolds["k 10"] = &RedisHold{Hold: 1, Key: "k", Token: "10", Base: time.Second, Replicas: row.replicas}
		ops, _ := h.withExceptions("k", row.scene)
		if got := mutex.check(ops, checkTimeout) == porcupine.Ok; got != row.legal {
			t.Errorf("%s: got %v, want %v", row.name, got, row.legal)
		}
	}
}

// TestConflictNamesFirstWrongOperation: conflict names the first operation that does not fit the
// model.
func TestConflictNamesFirstWrongOperation(t *testing.T) {
	h := NewHistory(&FaultTimeline{})
	h.ByKey["lock:1"] = testHistory{
		granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, 3), granted("plain", 2, 11, 4, 5), granted("plain", 3, 12, 6, 7), ended("plain", 2, 8, 9),
		ended("plain", 3, 20, 21), granted("plain", 4, 13, 30, 31),
	}
	if err := h.Check(io.Discard, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "lock:1 is no mutex:\n  until 7ms, with") {
		t.Errorf("got %v", err)
	}
}
