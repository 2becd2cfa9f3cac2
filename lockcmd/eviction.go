package lockcmd

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// warnOfEviction warns in the log about masters that may evict locks when their memory is full
// (R2). Every lock has a TTL, so all policies but noeviction may evict it:
// https://redis.io/docs/latest/develop/reference/eviction/. A server that does not tell its policy
// is skipped.
func (s *Service) warnOfEviction(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.UpstreamTimeout)
	defer cancel()
	ask := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "memory").Result()
		if err != nil {
			s.log.Debug("maxmemory-policy is not known", "node", node.Options().Addr, "err", err)
			return nil
		}
		if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
			s.log.Warn("Redis may evict locks when its memory is full: set maxmemory-policy to noeviction", "node",
				node.Options().Addr, "policy", policy)
		}
		return nil
	}
	var err error
	switch c := s.redis.Redis.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, c)
	}
	if err != nil {
		s.log.Debug("maxmemory-policy is not known", "err", err)
	}
}

// infoField is a field of INFO's reply, "" when it is missing.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if field, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && field == name {
			return value
		}
	}
	return ""
}
