package proxy

import (
	"strings"
	"sync"
	"sync/atomic"

	"leash/internal/guard"
	"leash/proxy/entry"
)

// stats are counters since start. Safe for concurrent use.
type stats struct {
	accepted        atomic.Int64 // connections that became sessions
	acceptsDelayed  atomic.Int64 // connections that waited because of --limit-accepts
	refused         atomic.Int64 // connections over --max-clients, or while stopping
	inBytes         atomic.Int64 // read from clients
	outBytes        atomic.Int64 // written to clients
	protocolErrors  atomic.Int64 // sessions ended by a protocol error
	outputLimit     atomic.Int64 // sessions closed because their output was not read
	subscriberLimit atomic.Int64 // subscribers closed because their messages were not read

	commands  [classes]atomic.Int64 // by the number of their class
	errors    [classes]atomic.Int64 // commands answered with an error
	redirects redirectCounts

	mu      sync.Mutex
	reasons map[string]int64 // ended sessions by kind of reason
}

// ended counts the end of a session. In the reason, the text after a colon is a detail and is not
// counted separately.
func (s *stats) ended(reason string) {
	kind, _, _ := strings.Cut(reason, ":")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = make(map[string]int64)
	}
	s.reasons[strings.ReplaceAll(kind, " ", "_")]++
}

// lines gives every counter to line, in a fixed order.
func (s *stats) lines(entries *entry.Server, line func(name string, value any)) {
	line("total_connections", s.accepted.Load())
	line("rejected_connections", s.refused.Load())
	line("input_bytes", s.inBytes.Load())
	line("protocol_errors", s.protocolErrors.Load())
	line("proxy_header_errors", entries.BadHeaders.Load())
	line("tls_handshake_errors", entries.BadHandshakes.Load())
	line("output_limit_disconnections", s.outputLimit.Load())
	line("subscriber_limit_disconnections", s.subscriberLimit.Load())
	line("panics", guard.Panics())
}
