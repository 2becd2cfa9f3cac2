package route

import (
	"bytes"
	"context"
	"strings"
	"time"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Authenticated reports whether the session's commands are served. Those of a client without a user
// are, if Redis serves them and RequireAuth is off.
func (r *Router) Authenticated() bool {
	return r.Lane.User != "" || !r.Up.Dialer.AuthRequired() && !r.RequireAuth
}

// Ready makes Redis's checks before a command that Leash answers itself: the number of arguments,
// and the user's right to it. If it returns false, it has answered.
func (r *Router) Ready(c *command.Command, cmd resp.Command) bool {
	refusal := ""
	switch {
	case !c.ArityOK(cmd.Args):
		refusal = command.WrongArity(c)
	case !r.Authenticated():
		refusal = command.NoAuth
	default:
		refusal = r.Denial(c, cmd)
		if refusal != "" && !strings.HasPrefix(refusal, "UPSTREAMDOWN ") && c.Name == "exec" {
			refusal = command.ExecRefused(refusal)
		}
	}
	if refusal != "" {
		r.Fail(refusal)
	}
	return refusal == ""
}

// WrongArity answers a command with Redis's error for a wrong number of arguments.
func (r *Router) WrongArity(c *command.Command) bool { return r.Fail(command.WrongArity(c)) }

// Refuse answers a command that Leash does not run, because it would harm other clients.
func (r *Router) Refuse(c *command.Command, cmd resp.Command) bool {
	if c.Subs != nil && len(cmd.Args) > 1 {
		return r.Fail(command.UnknownSub(c, cmd.Args[1]))
	}
	return !r.Ready(c, cmd) || r.Fail(c.Refusal())
}

// Denial returns the error for a user who may not run a command that Leash runs itself. It is empty
// if the user may. It blocks for a round trip, unless Redis has been asked within the last second.
func (r *Router) Denial(c *command.Command, cmd resp.Command) string {
	refusal, err := r.Rights.Refusal(r.Context, r.Lane, c.Name, cmd.Args)
	if err != nil {
		r.Rights.Warn(r.Lane.User, err)
		return call.NotSent(err)
	}
	return refusal
}

// AskTimeout bounds the wait for a node's answer to a question of Leash's own.
const AskTimeout = 5 * time.Second

// Permitted asks Redis whether the session's user may run a command that Leash answers. It sends a
// form of the command that always fails. Any error but NOPERM means yes. Unlike Ready, it also
// checks Leash's own user and works with a Redis without ACL DRYRUN, because these commands concern
// other clients. If it returns false, the client has been answered. It blocks for a round trip.
func (r *Router) Permitted(args ...string) bool {
	r.Out.Flush()
	ctx, cancel := context.WithTimeout(r.Context, AskTimeout)
	defer cancel()
	question := resp.AppendCommand(nil, args...)
	reply, err := r.Up.FirstAnswer(ctx, nil, func(ctx context.Context, n *links.Node) ([]byte, error) {
		return n.Link(r.Lane).Ask(ctx, question)
	})
	switch {
	case err != nil:
		return !r.Fail(call.NotSent(err))
	case isDenied(reply):
		return !r.Answer(reply)
	}
	return true
}

// isDenied reports whether the reply is about a missing right or an unknown user. Other errors are
// about the form of the command.
func isDenied(reply []byte) bool {
	for _, code := range []string{"-NOPERM ", "-NOAUTH ", "-ERR No such user "} {
		if bytes.HasPrefix(reply, []byte(code)) {
			return true
		}
	}
	return false
}
