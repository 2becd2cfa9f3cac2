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
	return l.Path(false).ask(ctx, command)
}

// ask is Ask without a detour.
func (l *Link) ask(ctx context.Context, command []byte) ([]byte, error) {
	a := &asked{ended: make(chan struct{})}
	l.Submit(&Call{Request: command, Sink: a})
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

// Dropped implements Sink.
func (a *asked) Dropped() bool { return false }
