package redistest

import (
	"strconv"
	"strings"
)

// SlotCount is the number of hash slots of every Redis Cluster.
const SlotCount = 16384

// Slot returns the hash slot of key. If there is text between its first '{' and the next '}', only
// that text counts.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % SlotCount)
}

// KeyIn returns a key in slot: prefix and a hash tag, the same one at each call. The prefix must
// not contain '{'.
func KeyIn(slot int, prefix string) string {
	for n := 0; ; n++ {
		if tag := strconv.Itoa(n); int(crc16(tag)%SlotCount) == slot {
			return prefix + "{" + tag + "}"
		}
	}
}

// crc16 is CRC-16/XMODEM (polynomial 0x1021, start 0), as the cluster specification has it.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}
