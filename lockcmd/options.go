package lockcmd

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// options are the arguments after a key, as the client gave them. A nil pointer means that the
// option is missing.
type options struct {
	hold.Selector     // TOKEN, OWNER, and READ, WRITE or FAIR
	block, lease, ttl *int64
	maxHold, idle     *int64 // MAXHOLD and IDLE
	quorum            *int64
	replicas          int64
	id                string
	all               bool
	terms             script.Terms // what the hold keeps and needs no other option
	count             int64        // 0 if missing
}

// parseOptions reads the options that a command allows, in any order. A nonempty message is the
// error to answer.
func parseOptions(args [][]byte, allowed string) (o options, msg string) {
	seen := ""
	for i := 0; i < len(args); i++ {
		name := resp.Word(args[i])
		if !oneOf(name, allowed) || oneOf(name, seen) {
			return o, refusal.Syntax
		}
		seen += " " + name
		if o.flag(name) {
			continue
		}
		if i++; i == len(args) {
			return o, refusal.Syntax
		}
		if msg := o.set(name, args[i]); msg != "" {
			return o, msg
		}
	}
	if o.requestedMode() == nil || (o.id != "" && allowed != permitWords || o.terms.StayOnClose) && o.Owner == "" ||
		o.Token != 0 && o.Owner != "" && allowed != attachWords {
		return o, refusal.Syntax
	}
	return o, ""
}

// parse reads the arguments of a command about a key, with the options that it allows.
func (s *Service) parse(args [][]byte, allowed string) (key string, o options, msg string) {
	key = string(args[1])
	o, msg = parseOptions(args[2:], allowed)
	return key, o, cmp.Or(msg, s.keyError(key))
}

// flag sets an option without a value. It reports whether name is one.
func (o *options) flag(name string) bool {
	switch name {
	case "ALL":
		o.all = true
	case "READ", "WRITE", "FAIR":
		o.Mode += name // two of them make an unknown mode
	default:
		return false
	}
	return true
}

// Allowed options by command.
const (
	commonWords    = "BLOCK LEASE TTL OWNER ID MAXHOLD IDLE REPLICAS ONLOSS ONCLOSE"
	acquireWords   = commonWords + " READ WRITE FAIR"
	macquireWords  = commonWords + " QUORUM"
	attachWords    = "OWNER TOKEN READ WRITE"
	releaseWords   = "TOKEN OWNER ID ALL READ WRITE"
	ttlWords       = "TOKEN OWNER"
	checkWords     = "TOKEN"
	awaitLossWords = "TOKEN BLOCK"
	permitWords    = "COUNT BLOCK LEASE TTL ID"
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
		o.Owner = string(value)
		if !validOwner(o.Owner) {
			return refusal.Owner
		}
		return ""
	case "ID":
		o.id = string(value)
		if !printable(o.id) {
			return refusal.ID
		}
		return ""
	case "COUNT":
		o.count, msg = parseCount(value, maxPermits)
		if msg == "" && (o.count < 1 || o.count > maxCountOption) {
			msg = refusal.Count
		}
		return msg
	case "ONCLOSE":
		return choose(&o.terms.StayOnClose, value, "EXPIRE", "RELEASE")
	case "ONLOSS":
		return choose(&o.terms.ErrorOnLoss, value, "ERROR", "CLOSE")
	}
	n, ok := resp.ParseInt(value)
	switch {
	case !ok && name == "BLOCK":
		return refusal.BlockNumber
	case !ok:
		return refusal.NotInteger
	case name == "BLOCK":
		o.block = &n
	case name == "LEASE":
		o.lease = &n
	case name == "TTL":
		o.ttl = &n
	case name == "QUORUM":
		o.quorum = &n
	case name == "REPLICAS":
		if n < 1 || n > math.MaxInt32 {
			return refusal.Negative
		}
		o.replicas = n
	case name == "MAXHOLD":
		o.maxHold = &n
	case name == "IDLE":
		o.idle = &n
	case name == "TOKEN":
		if n <= 0 {
			return refusal.NotInteger
		}
		o.Token = n
	}
	return ""
}

// choose sets an option that is one of two words.
func choose(to *bool, value []byte, yes, no string) (msg string) {
	switch word := resp.Word(value); word {
	case yes, no:
		*to = word == yes
		return ""
	}
	return refusal.Syntax
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

// validOwner refuses names that Redisson or Leash use for other fields of the same hash (R4).
func validOwner(id string) bool {
	return printable(id) && id != "mode" && !strings.HasPrefix(id, "leash") && !strings.HasSuffix(id, ":write")
}

// acquireOptionsOf checks the options of a command for some locks; none for permits, which have no
// MAXHOLD.
func (s *Service) acquireOptionsOf(command string, o options, keys ...string) (opts acquire.Options, msg string) {
	m := o.requestedMode()
	opts = acquire.Options{Mode: m, Owner: o.Owner, ID: o.id, TTL: s.cfg.WatchdogTimeout}
	if opts.Wait, opts.Block, msg = o.parseBlock(); msg != "" {
		return opts, msg
	}
	if o.lease != nil && *o.lease == -1 { // Redisson's value for no lease
		o.lease = nil
	}
	if o.lease != nil && o.ttl != nil {
		return opts, refusal.LeaseAndTTL
	}
	for _, ms := range []*int64{o.lease, o.ttl, o.maxHold, o.idle} {
		if ms != nil && (*ms < 1 || *ms > script.MaxTTL.Milliseconds()) {
			return opts, refusal.Expire(command)
		}
	}
	if ms := cmp.Or(o.lease, o.ttl); ms != nil {
		opts.TTL = time.Duration(*ms) * time.Millisecond
	}
	opts.Replicas = o.replicas
	opts.Terms = o.terms
	opts.Lease, opts.Fair, opts.MaxHold = o.lease != nil, m.Fair, s.maxHoldOf(keys)
	if o.maxHold != nil {
		opts.MaxHold = shorter(opts.MaxHold, script.Millis(*o.maxHold))
	}
	if o.idle != nil {
		opts.Idle = script.Millis(*o.idle)
	}
	if opts.Lease && opts.MaxHold > 0 {
		opts.TTL = hold.CapLease(opts.TTL, opts.MaxHold)
	}
	if !opts.Lease && opts.TTL < MinTTL {
		return opts, "ERR invalid TTL: the minimum is " + strconv.FormatInt(MinTTL.Milliseconds(), 10) + " ms"
	}
	return opts, ""
}

// maxHoldOf returns the longest time for which locks may be held together. Zero means no limit.
func (s *Service) maxHoldOf(keys []string) (most time.Duration) {
	for _, key := range keys {
		most = shorter(most, time.Duration(s.maxHold.Load()))
		if s.cfg.MaxHoldOf != nil {
			most = shorter(most, s.cfg.MaxHoldOf(key))
		}
	}
	return most
}

// shorter is the shorter of two limits; zero means no limit.
func shorter(a, b time.Duration) time.Duration {
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

// parseBlock returns whether a command waits, and how long. A block of 0 has no limit.
func (o options) parseBlock() (wait bool, block time.Duration, msg string) {
	switch {
	case o.block == nil:
		return false, 0, ""
	case *o.block < 0:
		return false, 0, refusal.BlockNegative
	case *o.block > script.MaxTTL.Milliseconds():
		return false, 0, refusal.BlockRange
	}
	return true, script.Millis(*o.block), ""
}

// requestedMode returns the mode that the options of an ACQUIRE name; nil if there is none.
func (o options) requestedMode() *script.Mode {
	for _, m := range script.Modes {
		if m.Option == o.Mode {
			return m
		}
	}
	return nil
}

// keyError refuses two kinds of keys: one whose helper keys would be in another slot of Redis
// Cluster (R10), and one that belongs to another lock. It returns "" for other keys.
func (s *Service) keyError(key string) string {
	if script.IsHelper(key) {
		return refusal.Helper
	}
	if s.Redis.IsCluster && !script.OneSlot(key) {
		return refusal.Slots
	}
	return ""
}
