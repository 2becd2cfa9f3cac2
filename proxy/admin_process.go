package proxy

import (
	"cmp"
	"log/slog"
	"strings"

	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgLogLevel = "ERR the level is not one of debug, info, warn, error"
	msgNoStop   = "ERR this Leash cannot be stopped by a command"
)

// logLevels are the levels of LEASH LOGLEVEL.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// adminLogLevel answers LEASH LOGLEVEL [level]. To set it needs the right to set settings of Redis.
func (s *session) adminLogLevel(c *command.Command, cmd resp.Command) bool {
	level := s.server.cfg.LogLevel
	switch before := level.Level(); {
	case len(cmd.Args) == 2:
		s.scratch = resp.AppendBulk(s.scratch[:0], strings.ToLower(before.String()))
		return s.answer(s.scratch)
	case len(cmd.Args) > 3:
		return s.router.WrongArity(c)
	default:
		next, ok := logLevels[strings.ToLower(string(command.Quoted(cmd.Args[2], command.MaxQuoted)))]
		switch {
		case !ok:
			return s.fail(msgLogLevel)
		case !s.router.Permitted(toSet...):
			return true
		}
		level.Set(min(before, next, slog.LevelInfo)) // the line is to be seen
		s.server.log.Info("log level changed by a client", "from", before, "to", next, "session", s.id,
			"client", s.clientName(), "user", s.user())
		level.Set(next)
		return s.ok()
	}
}

// user is the ACL user of the session. Only the loop's goroutine may call it.
func (s *session) user() string { return cmp.Or(s.router.Lane.User, "default") }

// adminDrain answers LEASH DRAIN. The process then ends as it does at SIGTERM.
func (s *session) adminDrain(*command.Command, resp.Command) bool {
	if s.server.cfg.Stop == nil {
		return s.fail(msgNoStop)
	}
	s.server.log.Info("leash is told to stop by a client", "session", s.id, "client", s.clientName(),
		"user", s.user())
	ok := s.ok()
	s.out.Flush()
	s.server.cfg.Stop()
	return ok
}
