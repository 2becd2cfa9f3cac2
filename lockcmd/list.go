package lockcmd

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

var heldScript = loadScript("held", "rw_read", "rw")

// Locks returns the names of locks and semaphores that somebody holds through any Leash, as far as
// keys show: a plain lock's own key, or {name}:leash. It blocks until Redis answers.
func (s *Service) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	pipe := s.database(db).Pipeline()
	records, fields := make([]*redis.StringCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		records[i], fields[i] = pipe.HGet(ctx, key, recordField), pipe.HLen(ctx, key)
	}
	pipe.Exec(ctx) // each command has its own error
	for i, key := range keys {
		text, err := records[i].Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil) && judge(err) != answered:
			return nil, err
		case err != nil:
		default:
			// Otherwise the field of the owner was deleted (R11).
			if _, ours := parseRecord(text); ours && fields[i].Val() > 1 {
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

// recordsOf returns the name of the lock whose records may be in a key, see recordsKey.
func recordsOf(key string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(key, bracedRecords); ok && isBraced(name) {
		return name, true
	}
	name, ok = strings.CutSuffix(key, ":leash")
	if ok && isBraced(name) {
		return name[1 : len(name)-1], true
	}
	return name, ok && strings.Contains(name, "{")
}

// heldByRecords reports whether somebody holds the lock, or a permit of the semaphore, that has its
// records in {name}:leash.
func (s *Service) heldByRecords(lock lockID) (bool, error) {
	if s.cluster && !oneSlot(lock.key) {
		return false, nil
	}
	n, err := s.askInt(&scriptCall{
		script: heldScript, db: lock.db, keys: []string{lock.key, permitsKey(lock.key), recordsKey(lock.key)},
	}, s.deadline())
	if keysSplit(err) { // in a slot migration, records are enough
		return true, nil
	}
	return n == 1, err
}
