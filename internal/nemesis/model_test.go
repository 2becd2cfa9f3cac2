package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// scene is a history written down by hand; times are ms.
type scene []porcupine.Operation

func at(o op, call, ret int64) porcupine.Operation {
	if ret != never {
		ret *= int64(time.Millisecond)
	}
	return porcupine.Operation{ClientId: o.hold, Input: o, Call: call * int64(time.Millisecond), Return: ret}
}

func granted(mode string, hold int, token, call, ret int64) porcupine.Operation {
	return at(op{action: grant, mode: mode, hold: hold, token: token}, call, ret)
}

func ended(mode string, hold int, call, ret int64) porcupine.Operation {
	return at(op{action: end, mode: mode, hold: hold}, call, ret)
}

func counted(a action, hold int, call, ret int64) porcupine.Operation {
	return at(op{action: a, mode: "plain", hold: hold, counted: a == end}, call, ret)
}

func owned(o porcupine.Operation, owner string) porcupine.Operation {
	in := o.Input.(op)
	in.owner = owner
	o.Input = in
	return o
}

// asked is a request about a counter or a latch that was answered.
func asked(a action, n, left, call, ret int64) porcupine.Operation {
	return at(op{action: a, n: n, left: left}, call, ret)
}

// unknown is one of which nobody knows what became.
func unknown(a action, number int, n, call int64) porcupine.Operation {
	return at(op{action: a, hold: number, n: n, unknown: true}, call, never)
}

// TestModels: what each kind of lock allows, and what a broken script would do to it.
func TestModels(t *testing.T) {
	for _, row := range []struct {
		aspect aspect
		name   string
		legal  bool
		scene  scene
	}{
		{mutex, "one after the other", true, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, 6), granted("plain", 2, 11, 3, 8), ended("plain", 2, 9, never),
		}},
		{mutex, "granted when nobody knows whether the first is gone", true, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, never), granted("plain", 2, 11, 5, 50),
		}},
		{mutex, "no owner check: a release ended another's hold, and a third was let in", false, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, never), granted("plain", 2, 11, 3, 4), granted("plain", 3, 12, 6, 7), ended("plain", 2, 9, 10),
		}},
		{mutex, "granted while another believes", false, scene{
			granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 2, 3), ended("plain", 1, 5, 6), ended("plain", 2, 9, never),
		}},
		{fence, "tokens rise", true, scene{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 0, 5), granted("plain", 3, 12, 2, 6)}},
		{fence, "a token that does not rise", false, scene{granted("plain", 1, 10, 0, 1), granted("plain", 2, 10, 4, 5)}},
		{fence, "a token that falls", false, scene{granted("plain", 1, 11, 0, 1), granted("plain", 2, 10, 4, 5)}},
		{fence, "waited for side by side", true, scene{granted("plain", 1, 11, 0, 9), granted("plain", 2, 10, 1, 8)}},
		{reentrant, "as many releases as acquires", true, scene{
			granted("plain", 1, 10, 0, 1), counted(again, 1, 2, 3), counted(inner, 1, 4, 5), counted(end, 1, 6, 7), granted("plain", 2, 11, 7, 8),
		}},
		{reentrant, "a release too few ends it", false, scene{
			granted("plain", 1, 10, 0, 1), counted(again, 1, 2, 3), counted(end, 1, 6, 7),
		}},
		{reentrant, "an acquire that was not counted", false, scene{
			granted("plain", 1, 10, 0, 1), counted(inner, 1, 4, 5), counted(end, 1, 6, 7),
		}},
		{reentrant, "entered after its end", false, scene{
			granted("plain", 1, 10, 0, 1), counted(end, 1, 2, 3), counted(again, 1, 4, 5),
		}},
		{counting, "what is given can be taken", true, scene{
			asked(set, 2, 1, 0, 1), asked(take, 2, 1, 2, 3), asked(give, 1, 1, 4, 8), asked(take, 1, 1, 4, 6), asked(read, 0, 0, 9, 10),
		}},
		{counting, "set again", true, scene{asked(set, 2, 1, 0, 1), asked(set, 5, 0, 2, 3), asked(read, 0, 2, 4, 5)}},
		{counting, "set again, which had an effect", false, scene{asked(set, 2, 1, 0, 1), asked(set, 5, 0, 2, 3), asked(read, 0, 5, 4, 5)}},
		{counting, "more is taken than there is", false, scene{asked(set, 1, 1, 0, 1), asked(take, 1, 1, 2, 3), asked(take, 1, 1, 2, 3)}},
		{counting, "given twice", false, scene{asked(set, 1, 1, 0, 1), asked(give, 1, 3, 2, 3)}},
		{counting, "nobody knows, and it was not done", true, scene{
			asked(set, 1, 1, 0, 1), unknown(give, 7, 1, 2), unknown(take, 8, 1, 2), asked(read, 0, 1, 4, 5),
		}},
		{counting, "nobody knows, and it was done late", true, scene{
			asked(set, 1, 1, 0, 1), unknown(give, 7, 1, 2), asked(read, 0, 1, 4, 5), asked(read, 0, 2, 6, 7),
		}},
		{counting, "nobody knows, and it was done twice", false, scene{asked(set, 1, 1, 0, 1), unknown(give, 7, 1, 2), asked(read, 0, 3, 4, 5)}},
		{counting, "taken for one who had gone, and given back", true, scene{
			asked(set, 1, 1, 0, 1), unknown(take, 7, 1, 2), unknown(back, 7, 1, 2), asked(read, 0, 0, 4, 5), asked(read, 0, 1, 6, 7),
		}},
		{counting, "given back, and not taken", false, scene{
			asked(set, 1, 1, 0, 1), unknown(take, 7, 1, 2), unknown(back, 7, 1, 2), asked(read, 0, 2, 4, 5),
		}},
		{latching, "counted down, and set anew", true, scene{
			asked(set, 2, 1, 0, 1), asked(down, 0, 1, 2, 3), asked(await, 0, 1, 2, 6), asked(down, 0, 0, 4, 5), asked(set, 3, 1, 7, 8), asked(read, 0, 3, 9, 10),
		}},
		{latching, "not below zero", true, scene{asked(set, 1, 1, 0, 1), asked(down, 0, 0, 2, 3), asked(down, 0, 0, 4, 5), asked(set, 1, 1, 6, 7)}},
		{latching, "gone on before zero", false, scene{
			asked(set, 2, 1, 0, 1), asked(down, 0, 1, 2, 3), asked(await, 0, 1, 2, 4), asked(down, 0, 0, 5, 6),
		}},
		{latching, "one down counts twice", false, scene{asked(set, 2, 1, 0, 1), asked(down, 0, 0, 2, 3)}},
		{latching, "two find the same count", false, scene{asked(set, 3, 1, 0, 1), asked(down, 0, 2, 2, 5), asked(down, 0, 2, 2, 5)}},
		{latching, "set while there is a count", false, scene{asked(set, 3, 1, 0, 1), asked(set, 2, 1, 2, 3)}},
		{readWrite, "readers together", true, scene{
			granted("read", 1, 10, 0, 1), granted("read", 2, 11, 0, 2), ended("read", 1, 5, 6), ended("read", 2, 5, 6), granted("write", 3, 12, 6, 8),
		}},
		{readWrite, "a writer beside a reader", false, scene{
			granted("read", 1, 10, 0, 1), granted("write", 2, 11, 2, 3), ended("read", 1, 5, 6),
		}},
		{readWrite, "a writer reads too, and keeps that", true, scene{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "me"), owned(ended("write", 1, 4, 5), "me"),
			granted("read", 3, 12, 6, 7),
		}},
		{readWrite, "a reader beside another's write", false, scene{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "you"), owned(ended("write", 1, 4, 5), "me"),
		}},
		{semaphore, "permits up to their number", true, scene{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), ended("permit", 2, 2, 3), granted("permit", 4, 0, 2, 9),
		}},
		{semaphore, "one permit too many", false, scene{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), granted("permit", 4, 0, 2, 9), ended("permit", 2, 10, 11),
		}},
		{semaphore, "two permits too many, of those who still have theirs", false, scene{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), granted("permit", 4, 0, 2, 3), granted("permit", 5, 0, 2, 3),
		}},
	} {
		if got := row.aspect.check(row.aspect.of(row.scene), checkTimeout) == porcupine.Ok; got != row.legal {
			t.Errorf("%s: %s: got %v, want %v", row.aspect.name, row.name, got, row.legal)
		}
	}
}

// TestForgottenHoldsAreExcepted: what Redis forgot is no holder, but only what was held then, and
// only until its client must know.
func TestForgottenHoldsAreExcepted(t *testing.T) {
	ms := int64(time.Millisecond)
	clash := scene{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 5, 6), ended("plain", 1, 8, never), ended("plain", 2, 9, never)}
	late := scene{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 5, 6), ended("plain", 1, 60_000, never), ended("plain", 2, 60_001, never)}
	flush, other := &interval{from: 2 * ms, to: 3 * ms}, &interval{key: "other", from: 2 * ms, to: 3 * ms}
	failover := &interval{from: 2 * ms, to: 3 * ms, failover: true}
	for _, row := range []struct {
		name     string
		forget   *interval
		replicas bool
		scene    scene
		legal    bool
	}{
		{"nothing", other, false, clash, false},
		{"flushed", flush, false, clash, true},
		{"this one alone", &interval{key: "k", from: 2 * ms, to: 3 * ms}, false, clash, true},
		{"later", &interval{from: 20 * ms, to: 30 * ms}, false, clash, false},
		{"broken, and told", &interval{from: 2 * ms, to: 3 * ms, told: true}, false, clash, false},
		{"failed over", failover, false, clash, true},
		{"failed over, and a replica had it", failover, true, clash, false},
		{"flushed, with replicas", flush, true, clash, true},
		{"never told", flush, false, late, false},
	} {
		h := newHistory(&faultTimeline{})
		h.forgets = []*interval{row.forget}
		h.kept["k 10"] = &kept{hold: 1, key: "k", token: "10", base: time.Second, replicas: row.replicas}
		ops, _ := h.withExceptions("k", row.scene)
		if got := mutex.check(ops, checkTimeout) == porcupine.Ok; got != row.legal {
			t.Errorf("%s: got %v, want %v", row.name, got, row.legal)
		}
	}
}

// TestClashNamesTheCulprit: the first operation that cannot be explained, whatever comes after it.
func TestClashNamesTheCulprit(t *testing.T) {
	h := newHistory(&faultTimeline{})
	h.byKey["lock:1"] = scene{
		granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, 3), granted("plain", 2, 11, 4, 5), granted("plain", 3, 12, 6, 7), ended("plain", 2, 8, 9),
		ended("plain", 3, 20, 21), granted("plain", 4, 13, 30, 31),
	}
	if err := h.check(io.Discard, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "lock:1 is no mutex:\n  until 7ms, with") {
		t.Errorf("got %v", err)
	}
}
