package upstream

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// goRedisLog logs go-redis's messages at debug level. They are about single dials and connections.
// What matters of them shows in errors.
type goRedisLog struct{ log *slog.Logger }

// Printf implements the interface that redis.SetLogger wants.
func (l goRedisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}

// quietGoRedis sends go-redis's messages, of the whole process, to log.
func quietGoRedis(log *slog.Logger) { redis.SetLogger(goRedisLog{log}) }
