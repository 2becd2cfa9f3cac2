package lockcmd

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// Locks returns the names of locks and semaphores that somebody holds through any Leash, as far as
// keys show: a plain lock's own key, or {name}:leash. It blocks until Redis answers.
func (s *Service) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	pipe := s.redis.Database(db).Pipeline()
	records, fields := make([]*redis.StringCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		records[i], fields[i] = pipe.HGet(ctx, key, script.RecordField), pipe.HLen(ctx, key)
	}
	pipe.Exec(ctx) // each command has its own error
	for i, key := range keys {
		text, err := records[i].Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil) && script.Judge(err) != script.Answered:
			return nil, err
		case err != nil:
		default:
			// Otherwise the field of the owner was deleted (R11).
			if _, ours := script.ParseRecord(text); ours && fields[i].Val() > 1 {
				names = append(names, key)
				continue
			}
		}
		name, ok := recordsOf(key)
		if !ok {
			continue
		}
		switch held, err := s.heldByRecords(lockID{db, name}); {
		case err != nil:
			return nil, err
		case held:
			names = append(names, name)
		}
	}
	return names, nil
}

// recordsOf returns the name of the lock whose records may be in a key, see script.RecordsKey.
func recordsOf(key string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(key, script.BracedRecords); ok && script.IsBraced(name) {
		return name, true
	}
	name, ok = strings.CutSuffix(key, ":leash")
	if ok && script.IsBraced(name) {
		return name[1 : len(name)-1], true
	}
	return name, ok && strings.Contains(name, "{")
}

// heldByRecords reports whether somebody holds the lock, or a permit of the semaphore, that has its
// records in {name}:leash.
func (s *Service) heldByRecords(lock lockID) (bool, error) {
	if s.redis.IsCluster && !script.OneSlot(lock.key) {
		return false, nil
	}
	n, err := s.redis.AskInt(&script.Call{
		Script: script.HeldScript, DB: lock.db, Keys: []string{lock.key, script.PermitsKey(lock.key), script.RecordsKey(lock.key)},
	}, s.deadline())
	if script.KeysSplit(err) { // in a slot migration, records are enough
		return true, nil
	}
	return n == 1, err
}
