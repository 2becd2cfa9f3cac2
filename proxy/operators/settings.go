package operators

import (
	"log/slog"
	"slices"
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

// logLevelSetting is the setting of LEASH LOGLEVEL.
const logLevelSetting = "log-level"

// config answers LEASH CONFIG GET and LEASH CONFIG SET. Each needs the right to the same
// command of Redis.
func config(by Caller, c *command.Command, cmd resp.Command) bool {
	switch {
	case !by.admitted(c, cmd):
		return true
	case resp.IsWord(cmd.Args[2], "GET"):
		return guarded(toReadSettings, configGet)(by, c, cmd)
	case resp.IsWord(cmd.Args[2], "SET"):
		return guarded(toSet, configSet)(by, c, cmd)
	}
	return by.Router.Fail("ERR unknown subcommand '" + string(command.Quoted(cmd.Args[2], command.MaxQuoted)) +
		"'. Try LEASH HELP.")
}

// configGet answers LEASH CONFIG GET pattern [pattern ...].
func configGet(by Caller, _ *command.Command, cmd resp.Command) bool {
	var found []any
	all := by.Settings.All()
	for i := 0; i+1 < len(all); i += 2 {
		for _, pattern := range cmd.Args[3:] {
			if pubsub.Match(strings.ToLower(string(pattern)), all[i]) {
				found = append(found, all[i], all[i+1])
				break
			}
		}
	}
	return by.Router.Answer(record(nil, by.Router.Lane.RESP3, found...))
}

// configSet answers LEASH CONFIG SET name value [name value ...].
func configSet(by Caller, _ *command.Command, cmd resp.Command) bool {
	args := cmd.Args[3:]
	if len(args)%2 != 0 {
		return by.Router.Fail(command.SyntaxError)
	}
	pairs := make([]string, len(args))
	for i, arg := range args {
		pairs[i] = string(command.Quoted(arg, maxSetting))
	}
	return by.setSettings(pairs)
}

// maxSetting is the most bytes of the name or the value of a setting.
const maxSetting = 1024

func (by Caller) setSettings(pairs []string) bool {
	log := by.Router.Log.With("session", by.Router.ID, "client", by.Client, "user", by.User)
	if err := by.Settings.Set(pairs, log); err != nil {
		return by.Router.Fail("ERR " + err.Error())
	}
	return by.Router.OK()
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

const (
	msgLogLevel = "ERR the level is not one of debug, info, warn, error"
	msgNoStop   = "ERR this Leash cannot be stopped by a command"
)

// logLevels are the levels of LEASH LOGLEVEL.
var logLevels = []string{"debug", "info", "warn", "error"}

// logLevel answers LEASH LOGLEVEL [level]. To set it needs the right to set settings of Redis.
func logLevel(by Caller, c *command.Command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) == 2:
		return by.Router.Answer(resp.AppendBulk(nil, valueOf(by.Settings.All(), logLevelSetting)))
	case len(cmd.Args) > 3:
		return by.Router.WrongArity(c)
	}
	level := strings.ToLower(string(command.Quoted(cmd.Args[2], command.MaxQuoted)))
	switch {
	case !slices.Contains(logLevels, level):
		return by.Router.Fail(msgLogLevel)
	case !by.Router.Permitted(toSet...):
		return true
	}
	return by.setSettings([]string{logLevelSetting, level})
}

// drain answers LEASH DRAIN. The process then ends as it does at SIGTERM.
func drain(by Caller, _ *command.Command, _ resp.Command) bool {
	if by.Stop == nil {
		return by.Router.Fail(msgNoStop)
	}
	by.Router.Log.Info("leash is told to stop by a client", "session", by.Router.ID, "client", by.Client,
		"user", by.User)
	ok := by.Router.OK()
	by.Router.Out.Flush()
	by.Stop()
	return ok
}
