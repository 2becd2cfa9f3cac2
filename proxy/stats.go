package proxy

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"

	"leash/proxy/command"
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

// classes is the number of classes that commands are counted by: those of command.Classes, and the
// unknown commands.
const classes = len(command.Classes) + 1

func className(i int) string {
	if i == classes-1 {
		return "unknown"
	}
	return strings.ReplaceAll(string(command.Classes[i]), " ", "_")
}

// commandCounts counts a session's commands by class between two reads from its socket. The
// session's loop adds them to those of the server before a read. So pipelined commands cost one
// atomic operation together.
type commandCounts struct {
	n    [classes]uint32
	used uint16 // one bit for each class that has a count
}

// add counts a command and returns its class. The command is nil if it is in no table.
func (c *commandCounts) add(cmd *command.Command) (class uint8) {
	class = uint8(classes - 1)
	if cmd != nil {
		class = cmd.ClassIndex
	}
	c.n[class]++
	c.used |= 1 << class
	return class
}

func (c *commandCounts) flush(to *stats) {
	for ; c.used != 0; c.used &= c.used - 1 {
		i := bits.TrailingZeros16(c.used)
		to.commands[i].Add(int64(c.n[i]))
		c.n[i] = 0
	}
}

// redirectKinds are the errors by which a node of a cluster refuses a command for its slot.
var redirectKinds = [...]string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"}

// redirectCounts are how often nodes have refused commands, by redirectKinds.
type redirectCounts [len(redirectKinds)]atomic.Int64

// count counts an error of that code. It ignores other codes.
func (c *redirectCounts) count(code string) {
	for i, kind := range redirectKinds {
		if kind == code {
			c[i].Add(1)
		}
	}
}
