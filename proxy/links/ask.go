package links

import "context"

// asked is the sink of a command that Leash itself sends on a link.
type asked struct {
	Unlimited
	ended chan struct{} // closed when reply and err are complete
	reply []byte
	err   error
}

// Ask sends a command on the link and waits for its reply. The command must leave the connection as
// it is.
func (l *Link) Ask(ctx context.Context, command []byte) ([]byte, error) {
	return l.AskAll(ctx, command, 1)
}

// AskAll is Ask for n commands at once. The replies come one after the other.
func (l *Link) AskAll(ctx context.Context, commands []byte, n int) (replies []byte, err error) {
	return l.Path(false).ask(ctx, commands, n)
}

// ask is AskAll without a detour.
func (l *Link) ask(ctx context.Context, commands []byte, n int) ([]byte, error) {
	a := &asked{ended: make(chan struct{})}
	l.Submit(&Call{Request: commands, Replies: n, Sink: a})
	select {
	case <-a.ended:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Reply implements Sink.
func (a *asked) Reply(part []byte, done bool) Flusher {
	a.reply = append(a.reply, part...)
	if done {
		close(a.ended)
	}
	return nil
}

// Lost implements Sink.
func (a *asked) Lost(_ bool, cause error) {
	a.err = cause
	close(a.ended)
}
