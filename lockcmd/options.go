package lockcmd

import (
	"math"
	"strings"

	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// options are the arguments after a key, as the client gave them. A nil pointer means that the
// option is missing.
type options struct {
	block, lease, ttl *int64
	maxHold, idle     *int64 // MAXHOLD and IDLE
	quorum            *int64
	replicas          int64
	owner, id         string
	token             int64
	all               bool
	terms             script.Terms // what the hold keeps and needs no other option
	count             int64        // 0 if missing
	mode              string       // READ, WRITE or FAIR
}

// parseOptions reads the options that a command allows, in any order. A nonempty message is the
// error to answer.
func parseOptions(args [][]byte, allowed string) (o options, msg string) {
	seen := ""
	for i := 0; i < len(args); i++ {
		name := resp.Word(args[i])
		if !oneOf(name, allowed) {
			return o, msgSyntax
		}
		if oneOf(name, seen) {
			return o, msgSyntax
		}
		seen += " " + name
		if o.flag(name) {
			continue
		}
		if i++; i == len(args) {
			return o, msgSyntax
		}
		if msg := o.set(name, args[i]); msg != "" {
			return o, msg
		}
	}
	if (o.id != "" && allowed != permitWords || o.terms.StayOnClose) && o.owner == "" ||
		o.token != 0 && o.owner != "" && allowed != attachWords {
		return o, msgSyntax
	}
	return o, ""
}

// flag sets an option without a value. It reports whether name is one.
func (o *options) flag(name string) bool {
	switch name {
	case "ALL":
		o.all = true
	case "READ", "WRITE", "FAIR":
		o.mode += name // two of them make an unknown mode
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
	case "COUNT":
		o.count, msg = parseCount(value, maxPermits)
		if msg == "" && (o.count < 1 || o.count > maxCountOption) {
			msg = msgCount
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
		return msgBlockNumber
	case !ok:
		return msgNotInteger
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
			return msgReplicas
		}
		o.replicas = n
	case name == "MAXHOLD":
		o.maxHold = &n
	case name == "IDLE":
		o.idle = &n
	case name == "TOKEN":
		if n <= 0 {
			return msgNotInteger
		}
		o.token = n
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
	return msgSyntax
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
