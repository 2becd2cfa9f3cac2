package upstream

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// goRedisLog takes what go-redis has to say, which is about single dials and
// connections, at debug level: what matters of it shows in errors.
type goRedisLog struct{ log *slog.Logger }

// Printf implements the interface that redis.SetLogger wants.
func (l goRedisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}

// quietGoRedis sends go-redis's messages, of the whole process, to log.
func quietGoRedis(log *slog.Logger) { redis.SetLogger(goRedisLog{log}) }
