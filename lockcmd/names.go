package lockcmd

import (
	"strconv"
	"strings"
)

// Names of the keys and channels that belong to a lock. Redisson's rule: a name that contains "{"
// anywhere stands for itself, any other is put in braces, so that its helpers hash to its slot.

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

// lockChannel is where an unlock of key is told, Redisson's RLock included.
func lockChannel(key string) string { return prefixName("redisson_lock__channel", key) }

// permitChannel is where permits of key that come back are told, Redisson's semaphores of both
// kinds included.
func permitChannel(key string) string { return prefixName("redisson_sc", key) }

// permitsKey has the permits of a semaphore and when their leases end, Redisson's
// RPermitExpirableSemaphore's included.
func permitsKey(key string) string { return suffixName(key, "timeout") }

// recordsKey has the records of what is held of key, where Redisson's own layout has no room for
// them.
func recordsKey(key string) string { return suffixName(key, "leash") }

// latchChannel is where a latch's reaching zero is told. Redisson puts every name in braces here,
// also one that has some: on a cluster the channel of such a name lies in another slot than the
// latch, where its scripts cannot publish to shards.
func latchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

// tokenKey is key's token counter, that of Redisson's RFencedLock.
func tokenKey(key string) string { return prefixName("redisson_lock_token", key) }

// queueKeys are where FAIR waiters of key stand: the list and the zset of Redisson's
// RedissonFairLock, and our own zset of those who wait through a Leash.
func queueKeys(key string) []string {
	return []string{queueKey(key), prefixName("redisson_lock_timeout", key), suffixName(key, "leash:waiters")}
}

// queueKey is the first of them: who waits.
func queueKey(key string) string { return prefixName("redisson_lock_queue", key) }

// rwChannel is where an unlock of key as a read-write lock is told, Redisson's RReadWriteLock
// included.
func rwChannel(key string) string { return prefixName("redisson_rwlock", key) }

// tombstoneKey tells carrier that its hold with this token was ended or moved by somebody else.
func tombstoneKey(key string, token int64, carrier string) string {
	return suffixName(key, "leash:"+strconv.FormatInt(token, 10)+":"+carrier)
}

// requestID is a client's ID, which is its owner's, in the name of an answerKey. The owner's length
// stands in front, for both may contain colons: "svc:1" with "2:x" is not "svc:1:2" with "x".
func requestID(owner, id string) string { return strconv.Itoa(len(owner)) + ":" + owner + ":" + id }

// isHelper reports whether a key is, or may be, one that belongs to another lock: its hash of
// records, for one.
func isHelper(key string) bool {
	return strings.Contains(key, "{") && (strings.HasSuffix(key, ":leash") || strings.Contains(key, ":leash:"))
}

// answerKey keeps the answer to a release with this ID: a requestID, or one of Leash's own.
func answerKey(key, id string) string { return suffixName(key, "leash:req:"+id) }

// carrierChannel is where the Leash of a carrier listens for what others did to its holds.
func carrierChannel(carrier string) string { return "leash:" + carrierLeash(carrier) }

// carrierLeash is the Leash that a carrier belongs to.
func carrierLeash(carrier string) string {
	leash, _, _ := strings.Cut(carrier, ":")
	return leash
}

// oneSlot reports whether all helpers of key lie in key's own slot (R10). Without braces they do.
func oneSlot(key string) bool {
	if key != "" && !strings.ContainsAny(key, "{}") {
		return true
	}
	s := slotOf(key)
	return slotOf(tokenKey(key)) == s && slotOf(recordsKey(key)) == s && slotOf(lockChannel(key)) == s
}

const slots = 16384

// slotOf is Redis Cluster's slot of key: CRC16 of its hash tag, or of all of it.
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
