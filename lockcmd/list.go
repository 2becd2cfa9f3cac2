package lockcmd

import "context"

// Locks returns the names of locks and semaphores that somebody holds through any Leash, as far as
// keys show: a plain lock's own key, or {name}:leash. It blocks until Redis answers.
func (s *Service) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	return s.redis.Locks(ctx, db, keys)
}
