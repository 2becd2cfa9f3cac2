package load

import (
	"fmt"
	"strconv"

	"leash/internal/redistest"
)

// A pair is a batch that takes one lock and releases it.
type pair struct {
	acquire, release []byte // whole requests
	stamp            []byte // where release has the token, for the scripts; nil for lock commands

	reply integers
	held  bool
}

// LockPair is a pair of lock commands, for Leash.
func LockPair(key string) *pair {
	return &pair{acquire: command("LOCK.ACQUIRE", key), release: command("LOCK.RELEASE", key)}
}

// begin implements exchanger.
func (p *pair) begin(request []byte) []byte {
	p.held = false
	return append(request, p.acquire...)
}

// receive implements exchanger.
func (p *pair) receive(came, request []byte) (newRequest []byte, complete bool, err error) {
	whole, err := p.reply.receive(came)
	switch {
	case err != nil:
		return request, false, err
	case !whole:
		return request, false, nil
	case !p.held:
		request, err = p.acquired(request)
		return request, false, err
	}
	return request, true, p.checkRelease()
}

// checkRelease checks the reply to the release. The script's reply has a second integer after the
// 1: how many subscribers got the wake-up.
func (p *pair) checkRelease() error {
	got := p.reply.list
	if len(got) == 0 || got[0] != 1 || p.stamp == nil && len(got) != 1 {
		return fmt.Errorf("wrong reply to a release: got %d, want 1", got)
	}
	return nil
}

// acquired checks the reply to the acquire, and appends the release.
func (p *pair) acquired(request []byte) ([]byte, error) {
	p.held = true
	switch got := p.reply.list; {
	case p.stamp == nil && (len(got) != 1 || got[0] < 1):
		return request, fmt.Errorf("wrong reply to an acquire: got %d, want a token", got)
	case p.stamp != nil && (len(got) < 2 || got[0] != 1):
		return request, fmt.Errorf("wrong reply to the script that acquires: got %d, want 1 and a token", got)
	case p.stamp != nil:
		if token := strconv.AppendInt(p.stamp[:0], got[1], 10); len(token) != len(p.stamp) {
			return request, fmt.Errorf("token %s: want one of %d digits", token, len(p.stamp))
		}
	}
	return append(request, p.release...), nil
}

// command encodes a command as RESP.
func command(words ...string) []byte { return []byte(redistest.Command(words...)) }
