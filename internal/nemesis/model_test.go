package main

import (
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

func owned(o porcupine.Operation, owner string) porcupine.Operation {
	in := o.Input.(op)
	in.owner = owner
	o.Input = in
	return o
}

func TestModel(t *testing.T) {
	for _, row := range []struct {
		name  string
		legal bool
		scene scene
	}{
		{"one after the other", true, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, 6), granted("plain", 2, 11, 3, 8), ended("plain", 2, 9, never),
		}},
		{"granted while another believes", false, scene{
			granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 2, 3), ended("plain", 1, 5, 6), ended("plain", 2, 9, never),
		}},
		{"granted when nobody knows whether the first is gone", true, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 5, never), granted("plain", 2, 11, 5, 50),
		}},
		{"a token that does not rise", false, scene{
			granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, 3), granted("plain", 2, 10, 4, 5),
		}},
		{"readers together", true, scene{
			granted("read", 1, 10, 0, 1), granted("read", 2, 11, 0, 2), ended("read", 1, 5, 6), ended("read", 2, 5, 6), granted("write", 3, 12, 6, 8),
		}},
		{"a writer beside a reader", false, scene{
			granted("read", 1, 10, 0, 1), granted("write", 2, 11, 2, 3), ended("read", 1, 5, 6),
		}},
		{"a writer reads too, and keeps that", true, scene{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "me"), owned(ended("write", 1, 4, 5), "me"),
			granted("read", 3, 12, 6, 7),
		}},
		{"a reader beside another's write", false, scene{
			owned(granted("write", 1, 10, 0, 1), "me"), owned(granted("read", 2, 11, 2, 3), "you"), owned(ended("write", 1, 4, 5), "me"),
		}},
		{"permits up to their number", true, scene{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), ended("permit", 2, 2, 3), granted("permit", 4, 0, 2, 9),
		}},
		{"one permit too many", false, scene{
			granted("permit", 1, 0, 0, 1), granted("permit", 2, 0, 0, 1), granted("permit", 3, 0, 0, 1), granted("permit", 4, 0, 2, 9), ended("permit", 2, 10, 11),
		}},
	} {
		if got := porcupine.CheckOperations(model, row.scene); got != row.legal {
			t.Errorf("%s: got %v, want %v", row.name, got, row.legal)
		}
	}
}

// TestForgottenHoldsAreExcepted: what Redis forgot is no holder, but only what was held then.
func TestForgottenHoldsAreExcepted(t *testing.T) {
	ms := int64(time.Millisecond)
	clash := scene{granted("plain", 1, 10, 0, 1), granted("plain", 2, 11, 5, 6), ended("plain", 1, 8, never), ended("plain", 2, 9, never)}
	for _, row := range []struct {
		forgets []span
		legal   bool
	}{
		{nil, false},
		{[]span{{"", 2 * ms, 3 * ms}}, true},
		{[]span{{"k", 2 * ms, 3 * ms}}, true},
		{[]span{{"other", 2 * ms, 3 * ms}}, false},
		{[]span{{"", 20 * ms, 30 * ms}}, false},
	} {
		if got := porcupine.CheckOperations(model, excepting("k", clash, row.forgets)); got != row.legal {
			t.Errorf("forgotten in %v: got %v, want %v", row.forgets, got, row.legal)
		}
	}
}

// TestBeliefEndsInTime: by its lease, by silence, and not twice.
func TestBeliefEndsInTime(t *testing.T) {
	h := newHistory()
	sent := time.Now()
	b := h.believe("k", "plain", "", "7", 7, time.Second, sent, sent.Add(10*time.Millisecond))
	if got := b.until.Sub(sent); got != time.Second {
		t.Errorf("a lease of 1 s is believed in for %v", got)
	}
	b.ends(sent.Add(2*time.Second), time.Time{})
	b.ends(sent, time.Time{})
	ops := h.byKey["k"]
	if len(ops) != 2 || ops[1].Call != h.at(sent.Add(time.Second)) || ops[1].Return != never {
		t.Errorf("got %v, want one end, at the lease's", ops)
	}
	renewed := h.believe("k", "plain", "", "8", 8, 0, sent, sent)
	if got := renewed.until.Sub(sent); got != ttl/2 {
		t.Errorf("without a word it is believed in for %v, want half a TTL", got)
	}
}

// TestClashNamesTheCulprit: the first operation that cannot be explained, whatever comes after it.
func TestClashNamesTheCulprit(t *testing.T) {
	text := clash(scene{
		granted("plain", 1, 10, 0, 1), ended("plain", 1, 2, 3), granted("plain", 2, 11, 4, 5), granted("plain", 3, 12, 6, 7), ended("plain", 2, 8, 9),
		ended("plain", 3, 20, 21), granted("plain", 4, 13, 30, 31),
	})
	if !strings.Contains(text, "until 7ms, with") {
		t.Errorf("got %s", text)
	}
}
