package links

import "context"

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
	ended := make(chan struct{})
	var replies []byte
	var err error
	l.Submit(&Call{Request: commands, Replies: n, Sink: &whole{ended: func(got []byte, lost error) {
		replies, err = got, lost
		close(ended)
	}}})
	select {
	case <-ended:
		return replies, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// whole is the sink of a command that Leash itself sends.
type whole struct {
	Unlimited
	reply []byte
	ended func(reply []byte, lost error) // called once; it must not block
}

// Reply implements Sink.
func (w *whole) Reply(part []byte, done bool) Flusher {
	w.reply = append(w.reply, part...)
	if done {
		w.ended(w.reply, nil)
	}
	return nil
}

// Lost implements Sink.
func (w *whole) Lost(_ bool, cause error) { w.ended(nil, cause) }
