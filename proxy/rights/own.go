package rights

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"leash/proxy/dial"
	"leash/proxy/upstream"
)

// ownCommands are the commands that Leash sends as its own user, beside those in lock scripts. Some
// have arguments, because a right can depend on them.
var ownCommands = []string{
	"ping", "info", "role", "command", "config get maxclients", "cluster slots", "cluster nodes", "client id",
	"client unblock 1", "select 0", "asking", "eval x 0", "evalsha x 0", "wait 1 0", "acl dryrun default ping",
	"subscribe redisson_lock__channel:{k}", "subscribe leash:fleet", "ssubscribe leash:fleet",
	"unsubscribe", "sunsubscribe",
	"publish redisson_lock__channel:{k} 0", "publish leash:fleet 0", "spublish leash:fleet 0",
}

// missingRightsScript returns the commands in ARGV that the user who runs it may not run. A Redis
// before version 7 cannot be asked, and does not know every command. Newer servers want as many
// arguments as the command takes. So a key that the user may write stands for those of a name
// alone, but not for a channel.
const missingRightsScript = `local missing, check, key = {}, redis.acl_check_cmd, 'k'
local writes = check and (check('del', key) or check('set', key, key) or check('hset', key, key, key))
for _, command in ipairs(check and ARGV or {}) do
  local words = {}
  for word in string.gmatch(command, '%S+') do table.insert(words, word) end
  local known, may = pcall(check, unpack(words))
  for _ = 1, writes and #words == 1 and not command:find('publish$') and 3 or 0 do
    table.insert(words, key)
    if not known then known, may = pcall(check, unpack(words)) end
  end
  if known and not may then table.insert(missing, command) end
end
return missing`

// WarnMissing logs, for each master, the commands that Leash needs and that its own user may
// not run there. Without this, some of them would be missed only after a failover. It blocks for a
// round trip for each master.
func WarnMissing(ctx context.Context, up *upstream.Upstream, scriptCommands []string, log *slog.Logger) {
	question := []string{"EVAL", missingRightsScript, "0"}
	for _, command := range slices.Concat(ownCommands, scriptCommands) {
		question = append(question, strings.ToLower(command))
	}
	for _, n := range up.Topology().Masters() {
		var missing []string
		err := up.Ask(ctx, n.Addr, func(c *dial.Conn) error {
			list, err := c.List(question...)
			for _, command := range list {
				missing = append(missing, fmt.Sprint(command))
			}
			return err
		})
		if len(missing) > 0 {
			log.Warn("Leash's own user has not all rights that Leash needs", "node", n.Addr,
				"missing", strings.Join(missing, ", "))
		}
		if dial.IsReply(err) {
			log.Warn("cannot check the rights of Leash's own user", "node", n.Addr, "err", err)
		}
	}
}
