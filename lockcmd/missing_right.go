package lockcmd

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock scripts run as Leash's own user. If it lacks the right to a command, Redis's error does not
// name the command. Most scripts check the rights that they need before they write anything (needs
// in prelude.lua) and name the command themselves.

// msgMissingRight is the start of Redis's error for a script that called such a command.
const msgMissingRight = "ERR The user executing the script can't run this command or subcommand"

// callPattern finds the commands that a script calls.
var callPattern = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// findMissingRight returns the first command in ARGV that the user may not run on the key, "" for
// none.
var findMissingRight = redis.NewScript(`for _, name in ipairs(ARGV) do
if redis.acl_check_cmd and not redis.acl_check_cmd(name, KEYS[1]) then return name end
end
return ''`)

// nameMissingRight adds the missing command to Redis's error, if the error is about a missing
// right.
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

// commands are the names of the commands that the script calls.
func (sc *script) commands() (names []string) {
	for _, m := range callPattern.FindAllStringSubmatch(sc.source, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
