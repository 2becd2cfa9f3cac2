// Package password reads a password that changes: from a file, or from the output of a command.
//
// A Source keeps the newest password. Only one reading runs at a time, and it has a time limit. A
// reading that hangs, such as of a file on a mount that does not answer, delays a caller for at
// most a second.
package password

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"leash/internal/guard"
)

const (
	maxWait = time.Second     // how long Read waits for a reading
	again   = time.Second     // between two readings because of a refused password
	retry   = 5 * time.Second // between two readings after a failure
)

// Source is a password that may change. Safe for concurrent use.
type Source struct {
	read  func(context.Context) (string, error)
	limit time.Duration // of one reading
	keep  time.Duration // how long a password is used without another reading; 0: not at all

	mu      sync.Mutex // never held while the password is read
	newest  string     // empty: none has been read
	readAt  time.Time  // when newest was read
	err     error      // of the last reading
	current *reading   // nil: none runs
	last    time.Time  // when the last reading began
}

// reading is one call of read.
type reading struct {
	began time.Time
	done  chan struct{} // closed when the fields below are complete
	text  string
	err   error
}

// New makes a Source. read returns the password, and must end soon after its context. If it does
// not, no other reading begins until it has. A password is used for the time keep. If that is 0,
// each Read reads it again.
func New(read func(context.Context) (string, error), limit, keep time.Duration) *Source {
	return &Source{read: read, limit: limit, keep: keep}
}

// First reads the password and waits until it is read, at most for the limit of one reading.
func (s *Source) First() (string, error) {
	s.mu.Lock()
	r := s.beginLocked()
	s.mu.Unlock()
	return s.await(r, s.limit)
}

// Read returns the newest password. refused is a password that Redis has just refused, or empty: if
// it is the newest one, Read reads again, at most once a second. Read blocks for at most a second.
// The error is that of the last reading. The caller then goes on with the last password.
func (s *Source) Read(refused string) (string, error) {
	s.mu.Lock()
	asked := refused != "" && refused == s.newest
	if s.current == nil && s.dueLocked(asked) {
		s.beginLocked()
	}
	r, newest, err := s.current, s.newest, s.err
	s.mu.Unlock()
	if r == nil || s.keep > 0 && newest != "" && !asked {
		return newest, err
	}
	text, err := s.await(r, maxWait)
	if errors.Is(err, errRuns) && newest != "" {
		return newest, nil
	}
	return text, err
}

// dueLocked reports whether the password must be read now.
func (s *Source) dueLocked(refused bool) bool {
	switch since := time.Since(s.last); {
	case s.keep == 0 || s.newest == "":
		return true
	case refused:
		return since >= again
	case s.err != nil:
		return since >= min(retry, s.keep)
	}
	return time.Since(s.readAt) >= s.keep
}

// beginLocked starts a reading, unless one runs. The reading ends by itself.
func (s *Source) beginLocked() *reading {
	if s.current != nil {
		return s.current
	}
	r := &reading{began: time.Now(), done: make(chan struct{})}
	s.current, s.last = r, r.began
	go s.run(r)
	return r
}

// run is the body of a reading's goroutine.
func (s *Source) run(r *reading) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	r.err = guard.Call(nil, "password", func() (err error) { r.text, err = s.read(ctx); return err })
	s.mu.Lock()
	s.current, s.err = nil, r.err
	if r.err == nil {
		s.newest, s.readAt = r.text, time.Now()
	}
	s.mu.Unlock()
	close(r.done)
}

// errRuns means that a reading has not ended, and has time left.
var errRuns = errors.New("the password is still being read")

// await waits for a reading. It does not wait for one that has taken longer than the limit.
func (s *Source) await(r *reading, wait time.Duration) (string, error) {
	left := time.Until(r.began.Add(s.limit))
	timer := time.NewTimer(min(wait, max(left, 0)))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.text, r.err
	case <-timer.C:
	}
	if left > wait {
		return "", errRuns
	}
	return "", fmt.Errorf("reading the password takes longer than %v", s.limit)
}
