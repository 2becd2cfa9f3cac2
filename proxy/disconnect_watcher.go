package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"leash/internal/guard"
)

// aheadMax is how many bytes a watcher reads at most. After that, Leash asks the socket every
// aheadPoll whether the connection has ended. The socket shows a FIN only once the kernel has room
// for all bytes before it.
const (
	aheadMax  = 1 << 20
	aheadPoll = time.Second
)

// disconnectWatcher notices that the client disconnects while a command waits, as net/http does. It
// reads in the background. The session's next read starts with these bytes.
type disconnectWatcher struct {
	session *session
	ctx     context.Context // of a lock command; cancel ends it
	cancel  context.CancelFunc

	once    sync.Once
	started bool
	stopped chan struct{} // closed by stop
	done    chan struct{} // closed when the goroutine has ended
	gone    error         // why the connection ended; set before done is closed
	ahead   []byte        // bytes that were read; set before done is closed
}

// start begins to watch. Only the first call has an effect. It does not block.
func (w *disconnectWatcher) start() {
	w.once.Do(func() {
		w.started = true
		w.stopped, w.done = make(chan struct{}), make(chan struct{})
		if !w.session.server.start("disconnect watcher", w.run) {
			close(w.done)
		}
	})
}

// stop ends the watch and returns why the connection ended, or nil if it did not. After stop, start
// does nothing.
func (w *disconnectWatcher) stop() error {
	w.once.Do(func() {})
	if !w.started {
		return nil
	}
	s := w.session
	close(w.stopped)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	if !s.isCut() {
		_ = s.conn.SetReadDeadline(time.Time{})
	}
	s.input.ahead = append(s.input.ahead, w.ahead...)
	return w.gone
}

func (w *disconnectWatcher) run() {
	defer close(w.done)
	s := w.session
	if err := guard.Call(s.server.log, "disconnect watcher", w.read, "session", s.id); err != nil {
		w.gone = err
		w.cancel()
	}
}

func (w *disconnectWatcher) read() error {
	room := aheadMax - len(w.session.input.ahead)
	buf := make([]byte, 4<<10)
	for len(w.ahead) < room {
		n, err := w.session.conn.Read(buf[:min(len(buf), room-len(w.ahead))])
		w.ahead = append(w.ahead, buf[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // set by stop, or by a stop of the server
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
	}
	tick := time.NewTicker(aheadPoll)
	defer tick.Stop()
	for {
		select {
		case <-w.stopped:
			return nil
		case <-tick.C:
			if err := w.session.conn.PeerGone(); err != nil {
				return err
			}
		}
	}
}
