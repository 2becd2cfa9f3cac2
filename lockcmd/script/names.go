package script

import (
	"strconv"
	"strings"

	"leash/proxy/slots"
)

// These are the names of the keys and channels of a lock. Redisson's rule: a name that contains "{"
// is used as it is. Any other name is put in braces, so that all keys of a lock are in one slot.

func prefixName(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

func SuffixName(key, suffix string) string {
	if strings.Contains(key, "{") {
		return key + ":" + suffix
	}
	return "{" + key + "}:" + suffix
}

// LockChannel is where a release of key is published, as by Redisson's RLock.
func LockChannel(key string) string { return prefixName("redisson_lock__channel", key) }

// isBraced reports whether key is a name without "{" put in braces. The helper keys of "{a}" would
// be those of "a". Where Redisson does not decide on the name, they get another one.
func isBraced(key string) bool {
	return strings.HasPrefix(key, "{") && strings.HasSuffix(key, "}") && !strings.Contains(key[1:], "{")
}

// PermitChannel is where released permits of key are published, as by Redisson's semaphores.
func PermitChannel(key string) string { return prefixName("redisson_sc", key) }

// PermitsKey is the zset of a semaphore's permits and the ends of their leases, as in Redisson's
// RPermitExpirableSemaphore. Not so for a braced name: in one zset, the permits of "a" would
// be given back to "{a}".
func PermitsKey(key string) string {
	if isBraced(key) {
		return key + ":TIMEOUT"
	}
	return SuffixName(key, "timeout")
}

// RecordsKey is the hash of records where Redisson's layout has no room for them.
// All its names have five letters at the end, see timeoutKey in rw.lua.
func RecordsKey(key string) string {
	if isBraced(key) {
		return key + bracedRecords
	}
	return SuffixName(key, "leash")
}

// bracedRecords ends the RecordsKey of a braced name.
const bracedRecords = ":LEASH"

// SemaphoreKeys are the keys of a script about permits.
func SemaphoreKeys(key string) []string { return []string{key, PermitsKey(key), RecordsKey(key)} }

// timeoutKey lives as long as the i-th count of an owner's READ hold.
func timeoutKey(key, owner string, i int64) string {
	return SuffixName(key, owner+":rwlock_timeout:"+strconv.FormatInt(i, 10))
}

// LatchChannel is where a latch at zero is published. Redisson puts every name in braces here, even
// one that has braces. On a cluster the channel of such a name is in another slot than the latch.
// Scripts cannot publish to it with SPUBLISH.
func LatchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

// TokenKey is the token counter of key, that of Redisson's RFencedLock.
func TokenKey(key string) string { return prefixName("redisson_lock_token", key) }

// QueueKeys are the keys of the queue of FAIR waiters: Redisson's list and zset of
// RedissonFairLock, and our zset of waiters through a Leash.
func QueueKeys(key string) []string {
	return []string{queueKey(key), prefixName("redisson_lock_timeout", key), SuffixName(key, "leash:waiters")}
}

// TurnsKey is the list of Leashes that wait for key (R21).
func TurnsKey(key string) string {
	if isBraced(key) {
		return key + ":leash:turns:braced"
	}
	return SuffixName(key, "leash:turns")
}

// queueKey is the list of waiting owners.
func queueKey(key string) string { return prefixName("redisson_lock_queue", key) }

// RWChannel is where a release of a read-write lock is published, as by Redisson's RReadWriteLock.
func RWChannel(key string) string { return prefixName("redisson_rwlock", key) }

// TombstoneKey tells carrier that somebody else ended or moved its hold with this token.
func TombstoneKey(key string, token int64, carrier string) string {
	return SuffixName(key, "leash:"+strconv.FormatInt(token, 10)+":"+carrier)
}

// RequestID is the part of an AnswerKey for a client's ID, which belongs to its owner. The owner's
// length comes first, because both may contain colons: "svc:1" with "2:x" differs from "svc:1:2"
// with "x".
func RequestID(owner, id string) string { return strconv.Itoa(len(owner)) + ":" + owner + ":" + id }

// IsHelper reports whether a key belongs, or may belong, to another lock, such as its hash of
// records.
func IsHelper(key string) bool {
	name, records := strings.CutSuffix(key, bracedRecords)
	return records && isBraced(name) || strings.Contains(key, "{") &&
		(strings.HasSuffix(key, ":leash") || strings.Contains(key, ":leash:"))
}

// AnswerKey keeps the answer to a release with this ID: a RequestID, or an ID of Leash.
func AnswerKey(key, id string) string {
	if isBraced(key) {
		return key + ":leash:req:braced:" + id
	}
	return SuffixName(key, "leash:req:"+id)
}

// CarrierChannel is where the Leash of a carrier receives hold events.
func CarrierChannel(carrier string) string { return "leash:" + CarrierLeash(carrier) }

// CarrierLeash is the uuid of a carrier's Leash.
func CarrierLeash(carrier string) string {
	leash, _, _ := strings.Cut(carrier, ":")
	return leash
}

// OneSlot reports whether all helper keys of key are in key's slot (R10). Without braces in it they
// are.
func OneSlot(key string) bool {
	if key != "" && !strings.ContainsAny(key, "{}") {
		return true
	}
	slot := func(key string) slots.Slot { return slots.Of([]byte(key)) }
	s := slot(key)
	return slot(TokenKey(key)) == s && slot(RecordsKey(key)) == s && slot(LockChannel(key)) == s
}
