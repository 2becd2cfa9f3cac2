package lockcmd

import (
	"errors"
	"testing"
	"time"

	"leash/renewal"
)

// TestR25WhatRedisDoesNotTakeIsNotSentInPieces: a batch that comes to a server which serves nothing just now is unknown, and only one that
// holds something bad is asked for one by one.
func TestR25WhatRedisDoesNotTakeIsNotSentInPieces(t *testing.T) {
	h := &hold{kind: plain.id}
	h.watch.Keeper = h
	b := renewal.Batch{Holds: []*renewal.Hold{&h.watch}}
	s := &store{Service: &Service{}}
	for _, row := range []struct {
		err    error
		pieces bool
	}{
		{replyError("CLUSTERDOWN The cluster is down"), false},
		{replyError("LOADING Redis is loading the dataset in memory"), false},
		{replyError("READONLY You can't write against a read only replica."), false},
		{errors.New("i/o timeout"), false},
		{replyError("TRYAGAIN Multiple keys request during rehashing of slot"), true}, // one key may be there (R14)
		{replyError("NOPERM No permissions to access a key"), true},
		{replyError("ERR Error running script"), true},
	} {
		out := s.outcomes(t.Context(), b, nil, row.err, time.Now())
		if pieces := out == nil; pieces != row.pieces {
			t.Errorf("%v: in pieces: %v, want %v", row.err, pieces, row.pieces)
		}
		if !row.pieces && (len(out) != 1 || out[0] != renewal.Unknown) {
			t.Errorf("%v: got %v, want it unknown", row.err, out)
		}
	}
}
