package lockcmd

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock scripts run as Leash's own user. When it lacks the right to a command, Redis says so without
// naming it; the scripts themselves name those that they look for before they write (needs,
// prelude.lua).

// msgMissingRight begins what a script is answered that called such a command.
const msgMissingRight = "ERR The user executing the script can't run this command or subcommand"

// callPattern finds the commands that a script calls.
var callPattern = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// findMissingRight says which of the commands in ARGV the user may not run on the key; ” for none.
var findMissingRight = redis.NewScript(`for _, name in ipairs(ARGV) do
if redis.acl_check_cmd and not redis.acl_check_cmd(name, KEYS[1]) then return name end
end
return ''`)

// nameMissingRight is Redis's answer to r, with the name of the command that Leash's own user may not run, if
// that is what it is about.
func (s *Service) nameMissingRight(call *scriptCall, err error) error {
	if !strings.HasPrefix(err.Error(), msgMissingRight) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var args []any
	for _, name := range call.script.commands() {
		args = append(args, name)
	}
	name, seekErr := findMissingRight.Eval(ctx, s.database(call.db), call.keys[:1], args...).Text()
	if seekErr != nil || name == "" {
		return replyError("NOPERM Leash's own user has no permissions to run a command that lock scripts need")
	}
	return replyError("NOPERM Leash's own user has no permissions to run the '" + strings.ToLower(name) + "' command on that key")
}

// commands are those that the script calls.
func (sc *script) commands() (names []string) {
	for _, m := range callPattern.FindAllStringSubmatch(sc.source, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
