package embedded

import (
	"runtime"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// msgFailed is the reply to a command at which miniredis panicked.
const msgFailed = "ERR the embedded Redis can't run this command, a real Redis can"

// A guard keeps a bad command from ending the process. miniredis panics at some commands that are
// well-formed, such as `KEYS <invalid UTF-8>`. It panics in a goroutine of its own, where other
// packages cannot recover.
//
// miniredis calls check before each command. If the command is not guarded yet, check calls run,
// which dispatches the command again. miniredis then calls check a second time. check finds the
// command guarded, and miniredis runs the handler:
//
//	Dispatch → check → run → Dispatch → check (true for run) → handler
type guard struct {
	redis *miniredis.Miniredis
	// server is redis.Server(), which turns nil when redis is closed.
	server *server.Server
	// mu guards the field below. Not held while a command runs.
	mu sync.Mutex
	// running holds the peers that are within run.
	running map[*server.Peer]bool
}

// install adds a guard to a redis that is listening.
func install(redis *miniredis.Miniredis) {
	g := &guard{redis: redis, server: redis.Server(), running: map[*server.Peer]bool{}}
	g.server.SetPreHook(g.check)
}

// check reports whether the command is done.
func (g *guard) check(peer *server.Peer, name string, args ...string) bool {
	// miniredis answers COMMAND DOCS with COMMAND, at which redis-cli aborts
	if name == "COMMAND" && len(args) > 0 {
		peer.WriteError("ERR unknown subcommand '" + args[0] + "'. Try COMMAND HELP.")
		return true
	}
	if !g.server.IsRegisteredCommand(name) || !g.enter(peer) {
		return false
	}
	defer g.leave(peer)
	g.run(peer, append([]string{name}, args...))
	return true
}

func (g *guard) enter(peer *server.Peer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[peer] {
		return false
	}
	g.running[peer] = true
	return true
}

func (g *guard) leave(peer *server.Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, peer)
}

// run runs the command. If the command panics, the peer gets an error and its connection is closed.
// Part of a reply may have been written, and the client could not find the start of the next reply.
func (g *guard) run(peer *server.Peer, args []string) {
	defer func() {
		failure := recover()
		if failure == nil {
			return
		}
		at := findPanicOrigin()
		if at.inScript {
			panic(failure) // the Lua interpreter makes this an error of the script
		}
		if at.locked {
			g.redis.Unlock()
		}
		peer.WriteError(msgFailed)
		peer.Close()
	}()
	g.server.Dispatch(peer, args)
}

// panicOrigin is where a panic came from.
type panicOrigin struct {
	// locked: within miniredis's withTx, which takes its lock and does not unlock it with defer.
	locked bool
	// inScript: a command that a Lua script called. Its withTx has not taken the lock.
	inScript bool
}

// findPanicOrigin reads the stack during the deferred function of run that recovers.
func findPanicOrigin() panicOrigin {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var at panicOrigin
	runs := 0 // calls of run found so far: the first is the one that recovers
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasSuffix(frame.Function, ".(*guard).run"):
			runs++
		case strings.HasSuffix(frame.Function, "miniredis/v2.withTx"):
			at.locked = at.locked || runs == 0
		case strings.HasSuffix(frame.Function, ".(*Miniredis).runLuaScript"):
			at.inScript = at.inScript || runs > 0
		}
		if !more {
			return at
		}
	}
}
