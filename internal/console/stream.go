package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Times of a stream.
const (
	overviewEvery = 2 * time.Second
	// eventsEvery is the pause after events, so that many of them become one message. With
	// queuedEvents, a reader gets about a thousand a second at most.
	eventsEvery = 250 * time.Millisecond
	// sendTimeout is how long a write to a reader may take. Then the stream ends.
	sendTimeout = 10 * time.Second
)

var errTooManyStreams = &refusal{
	http.StatusServiceUnavailable, "too many pages read events, or Leash stops: close one, or try again soon",
}

// stream sends the overview and the changes of holds until the reader goes away, is too slow, or
// Close is called. The messages are:
//
//	overview   the answer of /api/overview, every two seconds
//	locks      a list of events
//	missed     how many events are missing, because there were too many
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	if _, err := c.question(r, nil); err != nil {
		refuse(w, err)
		return
	}
	queue, recent := c.feed.open()
	if queue == nil {
		refuse(w, errTooManyStreams)
		return
	}
	defer c.feed.leave(queue)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold messages back
	out := sender{w: w, control: http.NewResponseController(w), timeout: c.sendTimeout}
	_ = out.control.SetReadDeadline(time.Time{}) // the request has been read
	if out.send("locks", eventsOf(recent)) {
		c.follow(r, &out, queue)
	}
}

// follow sends what comes until the stream ends.
func (c *Console) follow(r *http.Request, out *sender, queue *stream) {
	ticker := time.NewTicker(overviewEvery)
	defer ticker.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var losses, others <-chan change // nil during a pause
	ok := out.send("overview", json.RawMessage(c.figures(c.cfg.Backend())))
	for ok {
		select {
		case first := <-losses:
			ok = out.changes(first, queue)
			losses, others = nil, nil
			pause.Reset(eventsEvery)
		case first := <-others:
			ok = out.changes(first, queue)
			losses, others = nil, nil
			pause.Reset(eventsEvery)
		case <-pause.C:
			losses, others = queue.losses, queue.others
		case <-ticker.C:
			ok = out.send("overview", json.RawMessage(c.figures(c.cfg.Backend())))
		case <-r.Context().Done():
			return
		case <-c.feed.closed:
			return
		}
	}
}

// sender writes messages to one reader.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // of one write
	buf     bytes.Buffer
}

// changes sends a change and all that wait behind it.
func (s *sender) changes(first change, queue *stream) bool {
	list := []change{first}
	for more := true; more && len(list) < 2*queuedEvents; {
		select {
		case c := <-queue.losses:
			list = append(list, c)
		case c := <-queue.others:
			list = append(list, c)
		default:
			more = false
		}
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.number, b.number) })
	if missed := queue.missed.Swap(0); missed > 0 && !s.send("missed", json.RawMessage(strconv.FormatInt(missed, 10))) {
		return false
	}
	return s.send("locks", eventsOf(list))
}

// send writes one message. It returns false if the reader is gone or does not read.
func (s *sender) send(event string, value any) bool {
	data, err := json.Marshal(value)
	if err != nil {
		return false
	}
	s.buf.Reset()
	s.buf.WriteString("event: " + event + "\ndata: ")
	s.buf.Write(data)
	s.buf.WriteString("\n\n")
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if _, err = s.w.Write(s.buf.Bytes()); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
