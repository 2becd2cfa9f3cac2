package dial

import (
	"context"
	"fmt"
	"log/slog"
)

// goRedisLog logs go-redis's messages at debug level. They are about single dials and connections.
// Problems that matter appear in errors too.
type goRedisLog struct{ log *slog.Logger }

// Printf implements the interface that redis.SetLogger wants.
func (l goRedisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}
