package scripts

import (
	linked "container/list"
	"crypto/sha1"
	"encoding/hex"
	"sync"
)

// Limits on the number of scripts and their bytes. A longer script is not kept.
const (
	keptScripts     = 1024
	keptScriptBytes = 8 << 20
	maxScript       = 1 << 20
)

// Seen are the recent scripts of clients. Scripts of EVAL do not displace scripts that were
// loaded with SCRIPT LOAD. The zero value has none. Safe for concurrent use.
type Seen struct {
	loaded, run cache
}

// Find returns the text of a script by its digest, in lower-case hexadecimal digits.
func (s *Seen) Find(sha string) (text string, ok bool) {
	if text, ok = s.loaded.find(sha); ok {
		return text, true
	}
	return s.run.find(sha)
}

// Clear forgets all scripts.
func (s *Seen) Clear() {
	s.loaded.clear()
	s.run.clear()
}

// cache keeps the most recently used scripts. Safe for concurrent use.
type cache struct {
	mu     sync.Mutex
	byText map[string]*linked.Element
	bySHA  map[string]*linked.Element
	recent linked.List // of *script, the most recently used in front
	size   int         // bytes of all texts
}

type script struct{ text, sha string }

// add keeps a script. Adding it again costs no copy and no digest.
func (c *cache) add(text []byte) {
	if len(text) > maxScript || c.touch(text) {
		return
	}
	sum := sha1.Sum(text)
	one := &script{string(text), hex.EncodeToString(sum[:])}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySHA[one.sha] != nil {
		return
	}
	if c.bySHA == nil {
		c.byText, c.bySHA = make(map[string]*linked.Element), make(map[string]*linked.Element)
	}
	e := c.recent.PushFront(one)
	c.byText[one.text], c.bySHA[one.sha] = e, e
	c.size += len(one.text)
	for c.recent.Len() > keptScripts || c.size > keptScriptBytes {
		c.dropLocked(c.recent.Back())
	}
}

func (c *cache) touch(text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byText[string(text)]
	if e != nil {
		c.recent.MoveToFront(e)
	}
	return e != nil
}

func (c *cache) dropLocked(e *linked.Element) {
	one := c.recent.Remove(e).(*script)
	delete(c.byText, one.text)
	delete(c.bySHA, one.sha)
	c.size -= len(one.text)
}

// find returns the script with this digest, given in lower-case hexadecimal digits.
func (c *cache) find(sha string) (text string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.bySHA[sha]
	if e == nil {
		return "", false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*script).text, true
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byText)
	clear(c.bySHA)
	c.recent.Init()
	c.size = 0
}
