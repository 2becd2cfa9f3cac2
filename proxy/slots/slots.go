// Package slots knows the hash slots of a Redis Cluster. All functions are pure and do not block.
package slots

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
)

// Slot is a hash slot: from 0 to Count - 1, or Any. Of, From and Parse make no other.
type Slot int16

const (
	Count = 16384 // hash slots of every Redis Cluster

	Any Slot = -1 // stands for a command that every node can serve
)

// Of returns the hash slot of a key. It is CRC16 (XMODEM) modulo 16384 of the key, or of its hash
// tag if it has one. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
func Of(key []byte) Slot {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if size := bytes.IndexByte(key[open+1:], '}'); size > 0 {
			key = key[open+1 : open+1+size]
		}
	}
	return Slot(crc16(key) % Count)
}

// From returns the slot with that number. ok is false if there is none.
func From(n int64) (s Slot, ok bool) { return Slot(n), 0 <= n && n < Count }

// Parse returns the slot with the decimal number in text. ok is false if there is none.
func Parse(text string) (s Slot, ok bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= Count {
		return 0, false
	}
	return Slot(n), true
}

// Key returns some key of a slot, always the same. The first call takes milliseconds.
func Key(s Slot) string { return keys()[s] }

var keys = sync.OnceValue(func() *[Count]string {
	var keys [Count]string
	for n, missing := 0, Count; missing > 0; n++ {
		key := fmt.Sprintf("{%d}", n)
		if s := Of([]byte(key)); keys[s] == "" {
			keys[s] = key
			missing--
		}
	}
	return &keys
})

// crc16 is CRC-16/XMODEM: polynomial 0x1021, no reflection. It takes four bytes in a step, because
// every relayed command waits for it.
func crc16(p []byte) (crc uint16) {
	for ; len(p) >= 4; p = p[4:] {
		crc = crcTables[3][p[0]^byte(crc>>8)] ^ crcTables[2][p[1]^byte(crc)] ^
			crcTables[1][p[2]] ^ crcTables[0][p[3]]
	}
	for _, b := range p {
		crc = crc<<8 ^ crcTables[0][byte(crc>>8)^b]
	}
	return crc
}

// crcTables[n] has the CRC of each byte with n zero bytes after it.
var crcTables = func() (tables [4][256]uint16) {
	for i := range 256 {
		crc := uint16(i) << 8
		for n := range tables {
			for range 8 {
				carry := crc&0x8000 != 0
				crc <<= 1
				if carry {
					crc ^= 0x1021
				}
			}
			tables[n][i] = crc
		}
	}
	return tables
}()
