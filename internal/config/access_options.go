package config

import (
	"errors"
	"slices"
)

// accessOptions say who may do what.
func accessOptions(c *Config) []option {
	return []option{
		{name: "require-auth", value: boolean(&c.RequireAuth),
			summary: "Refuse the commands of clients that have not authenticated, even if Redis takes them.",
			details: []string{
				"Such a client gets `NOAUTH`, as from a Redis whose default user has a password. " +
					"It can send `AUTH` or `HELLO` with a user of Redis, or show a certificate that names one.",
				"A default user without a password cannot log in. Another user with `nopass` can, with any password.",
			},
			limits: "not together with `--trust-clients`; needs `--upstream`"},
		{name: "protected-mode", value: boolean(&c.ProtectedMode),
			summary: "Refuse clients of other machines as long as clients need no password.",
			details: []string{
				"Such a client gets `DENIED`, as from Redis, and is closed. " +
					"Clients need no password if the default user of Redis has none, and with `--trust-clients`. " +
					"A client with a certificate that `--tls-client-ca` verifies is not refused.",
				"The flag is off by default, other than in Redis. Leash listens on this machine only, " +
					"unless you choose another address. Then Leash logs a warning at its start.",
			}},
		{name: "deny", value: list("command,...", &c.Deny),
			summary: "Commands that no client may run: a command, config|set, or @category of Redis's ACLs.",
			details: []string{
				"Such a command gets `NOPERM`, also inside `MULTI`. A command includes its subcommands. " +
					"Leash does not start if Redis has no such command or category.",
				"Scripts and functions can still run the command, unless you deny `@scripting` as well. " +
					"Nobody can be denied `AUTH`, `HELLO`, `QUIT` and `RESET`.",
			},
			defaultIs: "none"},
		{name: "allow-admin", value: list("user,...", &c.AllowAdmin),
			summary: "Users who may run the commands of category @admin; all others get NOPERM.",
			details: []string{
				"These are the commands of administrators, such as `CONFIG SET` and `CLIENT KILL`, and `LOCK.BREAK`. " +
					"The rights that Redis gives to these users limit them as well.",
				"`default` is a client that sends no `AUTH`.",
			},
			defaultIs: "all users, as far as Redis permits it"},
	}
}

// validateAccess checks the flags about who may do what.
func (c Config) validateAccess() error {
	switch {
	case c.RequireAuth && c.TrustClients:
		return errors.New("--require-auth and --trust-clients contradict each other: remove one of them")
	case c.RequireAuth && c.Embedded():
		return errors.New("--require-auth needs --upstream: the embedded Redis has no users")
	}
	return nil
}

// ServesStrangers reports whether machines other than this one can connect.
func (c Config) ServesStrangers() bool {
	for _, addr := range slices.Concat(c.Listen, c.TLSListen) {
		if !isLocal(addr) {
			return true
		}
	}
	return false
}
