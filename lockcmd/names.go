package lockcmd

import (
	"strconv"
	"strings"
)

// These are the names of the keys and channels of a lock. Redisson's rule: a name that contains "{"
// is used as it is. Any other name is put in braces, so that all keys of a lock are in one slot.

func prefixName(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

func suffixName(key, suffix string) string {
	if strings.Contains(key, "{") {
		return key + ":" + suffix
	}
	return "{" + key + "}:" + suffix
}

// lockChannel is where a release of key is published, as by Redisson's RLock.
func lockChannel(key string) string { return prefixName("redisson_lock__channel", key) }

// isBraced reports whether key is a name without "{" put in braces. The helper keys of "{a}" would
// be those of "a". Where Redisson does not decide on the name, they get another one.
func isBraced(key string) bool {
	return strings.HasPrefix(key, "{") && strings.HasSuffix(key, "}") && !strings.Contains(key[1:], "{")
}

// permitChannel is where released permits of key are published, as by Redisson's semaphores.
func permitChannel(key string) string { return prefixName("redisson_sc", key) }

// permitsKey is the zset of a semaphore's permits and the ends of their leases, as in Redisson's
// RPermitExpirableSemaphore. Not so for a braced name: in one zset, the permits of "a" would
// be given back to "{a}".
func permitsKey(key string) string {
	if isBraced(key) {
		return key + ":TIMEOUT"
	}
	return suffixName(key, "timeout")
}

// recordsKey is the hash of records where Redisson's layout has no room for them.
// All its names have five letters at the end, see timeoutKey in rw.lua.
func recordsKey(key string) string {
	if isBraced(key) {
		return key + bracedRecords
	}
	return suffixName(key, "leash")
}

// bracedRecords ends the recordsKey of a braced name.
const bracedRecords = ":LEASH"

// latchChannel is where a latch at zero is published. Redisson puts every name in braces here, even
// one that has braces. On a cluster the channel of such a name is in another slot than the latch.
// Scripts cannot publish to it with SPUBLISH.
func latchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

// tokenKey is the token counter of key, that of Redisson's RFencedLock.
func tokenKey(key string) string { return prefixName("redisson_lock_token", key) }

// queueKeys are the keys of the queue of FAIR waiters: Redisson's list and zset of
// RedissonFairLock, and our zset of waiters through a Leash.
func queueKeys(key string) []string {
	return []string{queueKey(key), prefixName("redisson_lock_timeout", key), suffixName(key, "leash:waiters")}
}

// queueKey is the list of waiting owners.
func queueKey(key string) string { return prefixName("redisson_lock_queue", key) }

// rwChannel is where a release of a read-write lock is published, as by Redisson's RReadWriteLock.
func rwChannel(key string) string { return prefixName("redisson_rwlock", key) }

// tombstoneKey tells carrier that somebody else ended or moved its hold with this token.
func tombstoneKey(key string, token int64, carrier string) string {
	return suffixName(key, "leash:"+strconv.FormatInt(token, 10)+":"+carrier)
}

// requestID is the part of an answerKey for a client's ID, which belongs to its owner. The owner's
// length comes first, because both may contain colons: "svc:1" with "2:x" differs from "svc:1:2"
// with "x".
func requestID(owner, id string) string { return strconv.Itoa(len(owner)) + ":" + owner + ":" + id }

// isHelper reports whether a key belongs, or may belong, to another lock, such as its hash of
// records.
func isHelper(key string) bool {
	name, records := strings.CutSuffix(key, bracedRecords)
	return records && isBraced(name) || strings.Contains(key, "{") && (strings.HasSuffix(key, ":leash") || strings.Contains(key, ":leash:"))
}

// answerKey keeps the answer to a release with this ID: a requestID, or an ID of Leash.
func answerKey(key, id string) string {
	if isBraced(key) {
		return key + ":leash:req:braced:" + id
	}
	return suffixName(key, "leash:req:"+id)
}

// carrierChannel is where the Leash of a carrier receives hold events.
func carrierChannel(carrier string) string { return "leash:" + carrierLeash(carrier) }

// carrierLeash is the uuid of a carrier's Leash.
func carrierLeash(carrier string) string {
	leash, _, _ := strings.Cut(carrier, ":")
	return leash
}

// oneSlot reports whether all helper keys of key are in key's slot (R10). Without braces in it they
// are.
func oneSlot(key string) bool {
	if key != "" && !strings.ContainsAny(key, "{}") {
		return true
	}
	s := slotOf(key)
	return slotOf(tokenKey(key)) == s && slotOf(recordsKey(key)) == s && slotOf(lockChannel(key)) == s
}

const slots = 16384

// slotOf is the slot of key in Redis Cluster: the CRC16 of its hash tag, or of all of it.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return int(crc) % slots
}

// crc16 is the table of CRC16-CCITT (XMODEM), polynomial 0x1021.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
