package transport

import (
	"fmt"
	"strings"
	"sync"
)

// Slots is the number of slots of a cluster.
const Slots = 16384

// SlotOf is the slot of key in Redis Cluster: the CRC16 of its hash tag, or of all of it.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return int(crc) % Slots
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

// SlotKey is some key of a slot.
func SlotKey(slot int) string { return slotKeys()[slot] }

var slotKeys = sync.OnceValue(func() []string {
	keys := make([]string, Slots)
	for n, missing := 0, Slots; missing > 0; n++ {
		key := fmt.Sprintf("{%d}", n)
		if s := SlotOf(key); keys[s] == "" {
			keys[s] = key
			missing--
		}
	}
	return keys
})
