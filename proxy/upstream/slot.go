package upstream

import "bytes"

// SlotCount is how many hash slots a Redis Cluster has.
const SlotCount = 16384

// Slot returns the hash slot of a key. It is CRC16 (XMODEM) modulo 16384 of the key, or of its hash
// tag if it has one. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
func Slot(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if size := bytes.IndexByte(key[open+1:], '}'); size > 0 {
			key = key[open+1 : open+1+size]
		}
	}
	var crc uint16
	for _, b := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % SlotCount
}

// crcTable is CRC-16/XMODEM: polynomial 0x1021, no reflection.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
