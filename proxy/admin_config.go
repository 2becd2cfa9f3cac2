package proxy

import (
	"log/slog"
	"strings"

	"leash/proxy/command"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
)

// ProcessSettings are the settings of the process. Its methods are safe for concurrent use.
type ProcessSettings interface {
	// All are the names and values of all settings, which alternate. It shows no passwords.
	All() []string
	// Set changes some settings, all or none, and logs what changes. pairs are names and values,
	// which alternate. The error is the one for the client, without its code.
	Set(pairs []string, log *slog.Logger) error
}

// noSettings are those of a process without any.
type noSettings struct{}

func (noSettings) All() []string                    { return nil }
func (noSettings) Set([]string, *slog.Logger) error { return nil }

// logLevelSetting is the setting of LEASH LOGLEVEL.
const logLevelSetting = "log-level"

// adminConfig answers LEASH CONFIG GET and LEASH CONFIG SET. Each needs the right to the same
// command of Redis.
func (s *session) adminConfig(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Authenticated():
		return s.fail(command.NoAuth)
	case !c.ArityOK(cmd.Args):
		return s.router.WrongArity(c)
	case resp.IsWord(cmd.Args[2], "GET"):
		return guarded(toReadSettings, (*session).adminConfigGet)(s, c, cmd)
	case resp.IsWord(cmd.Args[2], "SET"):
		return guarded(toSet, (*session).adminConfigSet)(s, c, cmd)
	}
	return s.fail("ERR unknown subcommand '" + string(command.Quoted(cmd.Args[2], command.MaxQuoted)) +
		"'. Try LEASH HELP.")
}

// adminConfigGet answers LEASH CONFIG GET pattern [pattern ...].
func (s *session) adminConfigGet(_ *command.Command, cmd resp.Command) bool {
	var found []any
	all := s.server.cfg.Process.All()
	for i := 0; i+1 < len(all); i += 2 {
		for _, pattern := range cmd.Args[3:] {
			if pubsub.Match(strings.ToLower(string(pattern)), all[i]) {
				found = append(found, all[i], all[i+1])
				break
			}
		}
	}
	return s.answer(record(nil, s.router.Lane.RESP3, found...))
}

// adminConfigSet answers LEASH CONFIG SET name value [name value ...].
func (s *session) adminConfigSet(_ *command.Command, cmd resp.Command) bool {
	args := cmd.Args[3:]
	if len(args)%2 != 0 {
		return s.fail(command.SyntaxError)
	}
	pairs := make([]string, len(args))
	for i, arg := range args {
		pairs[i] = string(command.Quoted(arg, maxSetting))
	}
	return s.setSettings(pairs)
}

// maxSetting is the most bytes of the name or the value of a setting.
const maxSetting = 1024

// setSettings changes settings of the process and answers the client.
func (s *session) setSettings(pairs []string) bool {
	log := s.server.log.With("session", s.id, "client", s.clientName(), "user", s.user())
	if err := s.server.cfg.Process.Set(pairs, log); err != nil {
		return s.fail("ERR " + err.Error())
	}
	return s.ok()
}

// valueOf is the value of a name among pairs, or empty.
func valueOf(pairs []string, name string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == name {
			return pairs[i+1]
		}
	}
	return ""
}
