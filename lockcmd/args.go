package lockcmd

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// options are the arguments behind a key, as written by the client. A pointer that is nil was not given.
type options struct {
	block, lease, ttl *int64
	owner, id         string
	token             int64
	all               bool
}

// parseOptions reads the options a command allows, in any order; a nonempty message is the error to answer.
func parseOptions(args [][]byte, allowed string) (o options, msg string) {
	seen := ""
	for i := 0; i < len(args); i++ {
		name := strings.ToUpper(string(args[i][:min(len(args[i]), 16)]))
		if !oneOf(name, allowed) {
			if allowed == acquireOptions && oneOf(name, laterAcquire) || allowed == releaseOptions && oneOf(name, laterRelease) {
				return o, msgUnsupported("option " + name)
			}
			return o, msgSyntax
		}
		if oneOf(name, seen) {
			return o, msgSyntax
		}
		seen += " " + name
		if name == "ALL" {
			o.all = true
			continue
		}
		if i++; i == len(args) {
			return o, msgSyntax
		}
		if msg := o.set(name, args[i]); msg != "" {
			return o, msg
		}
	}
	if o.id != "" && o.owner == "" || o.token != 0 && o.owner != "" {
		return o, msgSyntax
	}
	return o, ""
}

// Options by command, and those of later versions, which are refused by name.
const (
	acquireOptions = "BLOCK LEASE TTL OWNER ID"
	releaseOptions = "TOKEN OWNER ID ALL"
	ttlOptions     = "TOKEN OWNER"
	laterAcquire   = "READ WRITE FAIR MAXHOLD REPLICAS ONLOSS ONCLOSE"
	laterRelease   = "READ WRITE"
)

func oneOf(name, list string) bool {
	for word := range strings.FieldsSeq(list) {
		if word == name {
			return true
		}
	}
	return false
}

func (o *options) set(name string, value []byte) (msg string) {
	switch name {
	case "OWNER":
		o.owner = string(value)
		if !validOwner(o.owner) {
			return msgOwner
		}
		return ""
	case "ID":
		o.id = string(value)
		if !printable(o.id) {
			return msgID
		}
		return ""
	}
	n, ok := parseInt(value)
	switch {
	case !ok && name == "BLOCK":
		return msgBlockNumber
	case !ok:
		return msgNotInteger
	case name == "BLOCK":
		o.block = &n
	case name == "LEASE":
		o.lease = &n
	case name == "TTL":
		o.ttl = &n
	case name == "TOKEN":
		if n <= 0 {
			return msgNotInteger
		}
		o.token = n
	}
	return ""
}

// parseInt reads an integer as Redis does: decimal, no sign but a minus, no leading zeros, no spaces.
func parseInt(b []byte) (int64, bool) {
	digits := bytes.TrimPrefix(b, []byte("-"))
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

func printable(id string) bool {
	if len(id) < 1 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// validOwner refuses what Redisson or Leash keep in the same hash under a name of their own (R4).
func validOwner(id string) bool {
	return printable(id) && id != "mode" && !strings.HasPrefix(id, "leash") && !strings.HasSuffix(id, ":write")
}

// wish is what an ACQUIRE asks for.
type wish struct {
	db    int
	key   string
	owner string // "" for an owner of its own
	id    string
	wait  bool
	block time.Duration // how long to wait; 0 for ever
	ttl   time.Duration // the lease
	lease bool          // not renewed
}

func (w wish) lock() lockID { return lockID{w.db, w.key} }

const acquireName = "LOCK.ACQUIRE"

func (s *Service) parseAcquire(args [][]byte) (w wish, msg string) {
	if len(args) < 2 {
		return w, msgArity(acquireName)
	}
	o, msg := parseOptions(args[2:], acquireOptions)
	if msg != "" {
		return w, msg
	}
	w = wish{key: string(args[1]), owner: o.owner, id: o.id, ttl: s.cfg.WatchdogTimeout}
	if o.block != nil {
		if *o.block < 0 {
			return w, msgBlockNegative
		}
		if *o.block > maxTTL.Milliseconds() {
			return w, "ERR timeout is out of range"
		}
		w.wait, w.block = true, time.Duration(*o.block)*time.Millisecond
	}
	if o.lease != nil && *o.lease == -1 { // Redisson's word for none
		o.lease = nil
	}
	if o.lease != nil && o.ttl != nil {
		return w, msgLeaseAndTTL
	}
	for _, ms := range []*int64{o.lease, o.ttl} {
		if ms == nil {
			continue
		}
		if *ms < 1 || *ms > maxTTL.Milliseconds() {
			return w, msgExpire(acquireName)
		}
		w.ttl = time.Duration(*ms) * time.Millisecond
	}
	w.lease = o.lease != nil
	if !w.lease && w.ttl < MinTTL {
		return w, "ERR invalid TTL, a hold needs at least " + strconv.FormatInt(MinTTL.Milliseconds(), 10) + " ms to be renewed in"
	}
	return w, s.keyError(w.key)
}

// keyError refuses a key whose helpers Redis Cluster would place in another slot (R10).
func (s *Service) keyError(key string) string {
	if s.cluster && !oneSlot(key) {
		return msgSlots
	}
	return ""
}
