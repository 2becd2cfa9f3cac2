package client

import (
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

// Watcher notices that the client disconnects while its session waits, as net/http does. It reads
// in the background. The next reads of the Conn return these bytes first. Nobody else may read
// between Start and Stop.
type Watcher struct {
	Conn  *Conn
	Owner Owner
	Gone  func() // called when the connection has ended

	once    sync.Once
	started bool
	stopped chan struct{} // closed by Stop
	done    chan struct{} // closed when the goroutine has ended
	gone    error         // why the connection ended; set before done is closed
}

// Start begins to watch. Only the first call has an effect. It does not block.
func (w *Watcher) Start() {
	w.once.Do(func() {
		w.started = true
		w.stopped, w.done = make(chan struct{}), make(chan struct{})
		if !w.Owner.Go("disconnect watcher", w.run) {
			close(w.done)
		}
	})
}

// Started reports whether Start was called. Start must not be called meanwhile.
func (w *Watcher) Started() bool { return w.started }

// Stop ends the watch and returns why the connection ended, or nil if it did not. After Stop, Start
// does nothing.
func (w *Watcher) Stop() error {
	w.once.Do(func() {})
	if !w.started {
		return nil
	}
	close(w.stopped)
	_ = w.Conn.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	if !w.Conn.shut.Load() {
		_ = w.Conn.SetReadDeadline(time.Time{})
	}
	return w.gone
}

func (w *Watcher) run() {
	defer close(w.done)
	if err := guard.Call(w.Conn.log, "disconnect watcher", w.read, "client", w.Conn.RemoteAddr()); err != nil {
		w.gone = err
		w.Gone()
	}
}

func (w *Watcher) read() error {
	buf := make([]byte, 4<<10)
	for room := aheadMax - len(w.Conn.ahead); room > 0; room = aheadMax - len(w.Conn.ahead) {
		n, err := w.Conn.receive(buf[:min(len(buf), room)])
		w.Conn.ahead = append(w.Conn.ahead, buf[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // set by Stop, or by a stop of the server
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
			if err := w.Conn.PeerGone(); err != nil {
				return err
			}
		}
	}
}
