package proxy

import (
	"math/bits"
	"strings"
	"sync/atomic"

	"leash/proxy/command"
)

// classes is the number of classes that commands are counted by: those of command.Classes, and the
// unknown commands.
const classes = len(command.Classes) + 1

// className is the name of a class in metrics.
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

// flush adds the counts to those of the server.
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
