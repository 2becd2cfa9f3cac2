package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"leash/internal/redistest"
)

// tokenEvery is how often a new token comes.
const tokenEvery = 5 * time.Second

// tokens are the passwords of Leash's own user in Redis. The newest is in a file. They belong to
// one goroutine.
type tokens struct {
	redis  *redistest.Client // as an administrator
	gate   *gate
	file   string
	lasts  time.Duration
	number int
	valid  []token
}

type token struct {
	text   string
	number int
	ends   time.Time
}

// rotate makes tokens and ends them until ctx is done.
func (s *tokens) rotate(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	next := time.Now().Add(tokenEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		if now.After(next) {
			next = next.Add(tokenEvery)
			if err := s.issue(); err != nil {
				return err
			}
		}
		for len(s.valid) > 1 && now.After(s.valid[0].ends) {
			if err := s.setUser("<" + s.valid[0].text); err != nil {
				return err
			}
			s.gate.expire(s.valid[0].number)
			s.valid = s.valid[1:]
		}
	}
}

// issue makes a new token.
func (s *tokens) issue() error {
	raw := make([]byte, tokenSize/2)
	_, _ = rand.Read(raw) // never fails
	text := hex.EncodeToString(raw)
	s.number++
	s.gate.add(text, s.number)
	if err := s.setUser(">" + text); err != nil {
		return err
	}
	s.valid = append(s.valid, token{text, s.number, time.Now().Add(s.lasts)})
	next := filepath.Join(filepath.Dir(s.file), "next")
	if err := os.WriteFile(next, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.file)
}

func (s *tokens) setUser(rules ...string) error {
	got, err := s.redis.Do(append([]string{"ACL", "SETUSER", "leash"}, rules...)...)
	if err == nil && got != "+OK\r\n" {
		err = fmt.Errorf("ACL SETUSER was answered %q", got)
	}
	return err
}
