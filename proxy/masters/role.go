package masters

import (
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// role answers ROLE like a master without replicas. A client that knew replicas would connect to
// them without Leash.
func role(r *route.Router, c *command.Command, cmd resp.Command) bool {
	return !r.Ready(c, cmd) || r.RelayRewritten(cmd, withoutReplicas)
}

func withoutReplicas(reply []byte) []byte {
	all, ok := resp.Elements(reply)
	if !ok || len(all) != 3 || string(all[0]) != "$6\r\nmaster\r\n" {
		return reply
	}
	all[2] = []byte(resp.EmptyArray)
	return resp.Array(all)
}
