package transport

import (
	"errors"
	"leash/proxy/resp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// refusals has the reasons why nodes of Redis refused requests recently, such as BUSY, LOADING,
// READONLY or MISCONF. A reason is added to LOCKTIMEOUT. Each code is logged once until the node
// takes requests again. It is safe for concurrent use.
type refusals struct {
	some atomic.Bool // byNode is not empty

	mu     sync.Mutex
	byNode map[string]refusal
}

type refusal struct {
	text  string // Redis's own words, the last time
	at    time.Time
	codes []string // of the reasons in the log; Redis may give two reasons in turn
}

// NoteRefusal notes that the node of a key refused a script for now, if err says so.
func (c *Client) NoteRefusal(key string, err error) {
	reply, ok := errors.AsType[resp.ReplyError](err)
	if !ok {
		return
	}
	node, text := c.nodeOf(key), ErrorText(reply)
	f := &c.refusals
	f.mu.Lock()
	known := f.byNode[node]
	if f.byNode == nil {
		f.byNode = make(map[string]refusal)
	}
	code, _, _ := strings.Cut(text, " ")
	logged := slices.Contains(known.codes, code)
	if !logged {
		known.codes = append(known.codes, code)
	}
	f.byNode[node] = refusal{text, time.Now(), known.codes}
	f.some.Store(true)
	f.mu.Unlock()
	if !logged {
		c.Log.Warn("redis refuses lock scripts", "node", node, "err", text)
	}
}

// quietAfterRefusal is how long a node must have refused nothing before the log says that it takes
// lock scripts again. One success proves little: a script that has nothing to write succeeds on a
// read-only node too.
const quietAfterRefusal = 5 * time.Second

// noteSuccess notes that the node of a call took it.
func (c *Client) noteSuccess(call *Call) {
	if call.WantReplicas == 0 {
		c.roundTrip.note(time.Since(call.Sent))
	}
	c.NoteTaken(call.Keys[0])
}

// NoteTaken notes that the node of a key took a script.
func (c *Client) NoteTaken(key string) {
	f := &c.refusals
	if !f.some.Load() {
		return
	}
	node := c.nodeOf(key)
	f.mu.Lock()
	known, refusing := f.byNode[node]
	over := refusing && time.Since(known.at) >= quietAfterRefusal
	if over {
		delete(f.byNode, node)
	}
	f.some.Store(len(f.byNode) > 0)
	f.mu.Unlock()
	if over {
		c.Log.Info("redis takes lock scripts again", "node", node)
	}
}

// RefusedSince is why the node of a key refused a request after since, "" if it did not.
func (c *Client) RefusedSince(key string, since time.Time) string {
	f := &c.refusals
	if !f.some.Load() {
		return ""
	}
	node := c.nodeOf(key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.byNode[node]; known.at.After(since) {
		return known.text
	}
	return ""
}
