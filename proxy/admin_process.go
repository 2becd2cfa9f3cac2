package proxy

import (
	"slices"
	"strings"

	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgLogLevel = "ERR the level is not one of debug, info, warn, error"
	msgNoStop   = "ERR this Leash cannot be stopped by a command"
)

// logLevels are the levels of LEASH LOGLEVEL.
var logLevels = []string{"debug", "info", "warn", "error"}

// adminLogLevel answers LEASH LOGLEVEL [level]. To set it needs the right to set settings of Redis.
func (s *session) adminLogLevel(c *command.Command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) == 2:
		return s.answer(resp.AppendBulk(nil, valueOf(s.server.cfg.Process.All(), logLevelSetting)))
	case len(cmd.Args) > 3:
		return s.router.WrongArity(c)
	}
	level := strings.ToLower(string(command.Quoted(cmd.Args[2], command.MaxQuoted)))
	switch {
	case !slices.Contains(logLevels, level):
		return s.fail(msgLogLevel)
	case !s.router.Permitted(toSet...):
		return true
	}
	return s.setSettings([]string{logLevelSetting, level})
}

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
