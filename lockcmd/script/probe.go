package script

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoMaster is the error for a node that is no master.
var ErrNoMaster = errors.New("lockcmd: not a master")

// ProbeArgs are what Leash knows of a node.
type ProbeArgs struct {
	Identity string        // "" for none
	Since    int64         // since when it has been master at the latest, ms since 1970
	Marks    []string      // keys of which the first that the node takes gets the mark
	Keep     time.Duration // how long the mark lives
}

// ProbeResult is what a master says of itself. Times are ms since 1970.
type ProbeResult struct {
	Identity   string
	ReplID     string // its replication ID
	Since, Now int64
}

// Probe asks a node which master it is and since when.
func Probe(ctx context.Context, node *redis.Client, args ProbeArgs) (ProbeResult, error) {
	var reply any
	var err error
	for i := range len(args.Marks) + 1 {
		var mark []string // none in the last try
		if i < len(args.Marks) {
			mark = args.Marks[i : i+1]
		}
		reply, err = probeScript.Run(ctx, node, mark, words(args.Identity, args.Since, args.Keep.Milliseconds()))
		if err == nil || Judge(err) != Refused {
			break
		}
	}
	n := integersOf(reply)
	switch {
	case err != nil:
		return ProbeResult{}, err
	case len(n) != 4:
		return ProbeResult{}, ErrNoMaster
	}
	return ProbeResult{Identity: textAt(reply, 0), ReplID: textAt(reply, 1), Since: n[2], Now: n[3]}, nil
}
