package topology

import (
	"reflect"
	"slices"
	"testing"
)

func TestParseSentinel(t *testing.T) {
	at, state := []any{"::1", "6379"}, []any{"config-epoch", "7"}
	working := []any{"ip", "10.0.0.2", "port", "6379", "flags", "slave", "master-link-status", "ok"}
	itself := []any{"ip", "::1", "port", "6379", "flags", "slave", "master-link-status", "ok"}
	down := []any{"ip", "10.0.0.3", "port", "6379", "flags", "slave,s_down", "master-link-status", "ok"}
	cutOff := []any{"ip", "10.0.0.4", "port", "6379", "flags", "slave", "master-link-status", "err"}
	others := []any{[]any{"ip", "10.0.0.5", "port", "26379"}, []any{"port", "1"}, "odd", []any{"ip"}}
	got, ok := ParseSentinel(at, state, others, []any{working, itself, down, cutOff, nil, []any{1, 2}})
	want := Sentinel{"[::1]:6379", 7, []string{"10.0.0.5:26379"}, []string{"10.0.0.2:6379"}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, ok)
	}
	got, ok = ParseSentinel(at, nil, int64(3), "x")
	if want := (Sentinel{Master: "[::1]:6379"}); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, at := range [][]any{nil, {"h"}, {"h", "1", "2"}, {"h", int64(1)}, {nil, "1"}} {
		if _, ok := ParseSentinel(at, state, nil, nil); ok {
			t.Errorf("%v is an address", at)
		}
	}
}

func TestReplicasIn(t *testing.T) {
	got := ReplicasIn("# Replication\r\nrole:master\r\nconnected_slaves:3\r\n" +
		"slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\r\n" +
		"slave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=1,lag=0\r\n" +
		"slave2:port=6379,state=online\r\nslave3:ip=::1,port=6380,state=online\r\nslave_read_only:1\r\n")
	if want := []string{"10.0.0.2:6379", "[::1]:6380"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
