package transport

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leash/proxy/resp"
)

// ErrUnknown is the error for a request that was sent and whose outcome nobody knows.
var ErrUnknown = errors.New("lockcmd: outcome unknown")

// ErrRefused is the error for a request that Redis certainly did not run. It may take the request
// later.
var ErrRefused = errors.New("lockcmd: Redis did not take the request")

// ErrShape is the error for a reply that the script cannot give. Nobody knows whether the script
// ran.
var ErrShape = errors.New("lockcmd: a reply of another shape than the script's")

// IsSilence reports whether an error means that Redis did not answer in time.
func IsSilence(err error) bool { return errors.Is(err, ErrUnknown) || errors.Is(err, ErrRefused) }

// ErrorOfRead is the error of a request that only reads. Without an answer it has changed nothing.
func ErrorOfRead(err error) error {
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %v", ErrRefused, err)
	}
	return err
}

// HasCode reports whether err is an error of Redis that begins with that word.
func HasCode(err error, code string) bool {
	reply, ok := errors.AsType[resp.ReplyError](err)
	word, _, _ := strings.Cut(string(reply), " ")
	return ok && word == code
}

// Verdict says what an error means for the script.
type Verdict int

// The verdicts.
const (
	Answered  Verdict = iota // Redis ran it; the error is its answer
	Refused                  // Redis did not run it now, and may later
	Unsent                   // it did not reach Redis
	Ambiguous                // nobody knows whether it ran
)

// Transient are the errors that Redis answers, instead of running a script, for a limited time.
var Transient = []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "MOVED", "ASK",
	"NOREPLICAS", "MISCONF", "NOAUTH", "WRONGPASS",
	"Protocol error: unauthenticated", // for a long command on a connection that must log in first
	// with cluster-allow-reads-when-down, instead of CLUSTERDOWN, at the first write of the script
	"Script attempted to execute a write command while the cluster is down",
	"Can not execute a write command"} // the same of Valkey 9

// Migrates reports whether an error says that, in a slot migration, a node does not have all keys
// of a script. Redis finds that before the script runs, or when the script touches the missing key
// (rw.lua). ASK comes only for a script with several keys: another one follows it.
func Migrates(reply error) bool {
	// Valkey 9 writes it with a capital letter
	return HasCode(reply, "TRYAGAIN") || HasCode(reply, "ASK") ||
		strings.Contains(reply.Error(), "ttempted to access a non local key")
}

// Judge says what an error of a script call means.
func Judge(err error) Verdict {
	if reply, ok := errors.AsType[resp.ReplyError](err); ok {
		text := strings.TrimPrefix(string(reply), "ERR ")
		refused := func(start string) bool { return strings.HasPrefix(text, start) }
		if Migrates(reply) || slices.ContainsFunc(Transient, refused) {
			return Refused
		}
		return Answered
	}
	if errors.Is(err, ErrRefused) {
		return Unsent
	}
	return Ambiguous
}

// msgNoText stands for an error of Redis without a text. Callers take an empty text for no error.
const msgNoText = "ERR redis answered an error without a text"

// ErrorText is Redis's error for the client, never empty. It cuts off the position in our script,
// which Redis 7 appends and Redis 6 prepends.
func ErrorText(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, " script: "); i >= 0 && strings.Contains(text[i:], "on @user_script") {
		text = text[:i]
	}
	if i := strings.LastIndex(text, "@user_script: "); i >= 0 {
		if _, rest, ok := strings.Cut(text[i+len("@user_script: "):], ": "); ok {
			text = rest
		}
	}
	text = strings.TrimPrefix(text, "-")
	if strings.TrimSpace(text) == "" {
		return msgNoText
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}

// KeysSplit reports whether Redis refused because of a slot migration.
func KeysSplit(err error) bool {
	reply, ok := errors.AsType[resp.ReplyError](err)
	return ok && errors.Is(err, ErrRefused) && Migrates(reply)
}

// Lock scripts run as Leash's own user. If it lacks the right to a command, Redis's error does not
// name the command. Most scripts check the rights that they need before they write anything (needs
// in prelude.lua) and name the command themselves.

// msgMissingRight is the start of Redis's error for a script that called such a command. Since
// Redis 7.2 it is scriptFailure, before the error that the command has outside of scripts.
const (
	msgMissingRight = "ERR The user executing the script can't run this command or subcommand"
	scriptFailure   = "ACL failure in script: "
)

// findMissingRight returns the first command in ARGV that the user may not run on the key, "" for
// none. It leaves out PUBLISH, whose argument is a channel: no script fails when that is refused.
// The key stands for all arguments, as in prelude.lua.
var findMissingRight = &Script{Source: `local k = {KEYS[1], KEYS[1], KEYS[1]}
for _, name in ipairs(redis.acl_check_cmd and ARGV or {}) do
local known, may = name:find('PUBLISH$'), true
for n = 3, 0, -1 do if not known then known, may = pcall(redis.acl_check_cmd, name, unpack(k, 1, n)) end end
if known and not may then return name end
end
return ''`}

// msgsMissingKey are the starts of Redis's errors for a key that the user may not access: one of
// the script's keys, or one of a command that the script called.
var msgsMissingKey = [...]string{
	"NOPERM this user has no permissions to access one of the keys",
	"NOPERM No permissions to access a key", // newer versions of Redis
	"ERR The user executing the script can't access at least one of the keys",
}

// findMissingKey returns the first key in ARGV that the user may not read and write, "" for none.
// The keys are no KEYS, because Redis would refuse that script too.
var findMissingKey = &Script{Source: `for _, key in ipairs(ARGV) do
if redis.acl_check_cmd and not (redis.acl_check_cmd('GET', key) and redis.acl_check_cmd('DEL', key)) then return key end
end
return ''`}

// nameMissingRight adds the missing command or key to Redis's error, if the error is about a
// missing right.
func (c *Client) nameMissingRight(call *Call, err error) error {
	text := err.Error()
	rest, inScript := strings.CutPrefix(strings.TrimPrefix(text, "ERR "), scriptFailure)
	if inScript {
		text = "NOPERM " + rest
	}
	for _, start := range msgsMissingKey {
		if !strings.HasPrefix(text, start) {
			continue
		}
		if key := c.firstDenied(call, findMissingKey, nil, call.Keys); key != "" {
			return resp.ReplyError("NOPERM Leash's own user has no permissions to access the key '" +
				PrintableKey(key) + "'")
		}
		return resp.ReplyError("NOPERM Leash's own user has no permissions to access a helper key of '" +
			PrintableKey(call.Keys[0]) + "'")
	}
	if !inScript && !strings.HasPrefix(text, msgMissingRight) {
		// Without the right to EVALSHA, Redis means Leash's own user. A client takes that for its
		// own.
		if _, rest, ok := strings.Cut(text, " has no permissions"); ok && strings.HasPrefix(text, "NOPERM ") {
			return resp.ReplyError("NOPERM Leash's own user has no permissions" + rest)
		}
		return err
	}
	if name := c.firstDenied(call, findMissingRight, call.Keys[:1], call.Script.Commands()); name != "" {
		return resp.ReplyError("NOPERM Leash's own user has no permissions to run the '" + strings.ToLower(name) +
			"' command on that key")
	}
	return resp.ReplyError("NOPERM Leash's own user has no permissions to run a command that lock scripts need")
}

// firstDenied returns the first of the names that a script finds denied; "" if it finds none.
func (c *Client) firstDenied(call *Call, find *Script, keys, names []string) string {
	cmd := find.Command(keys, names)
	cmd.Key = call.Keys[0]
	reply, err := c.Do(time.Now().Add(time.Second), call.DB, cmd)
	return Reply{reply, err}.String()
}
