package resp

import "math"

// ParseInt reads a decimal integer of 64 bits by the rules of Redis's string2ll. A minus sign is
// allowed. A plus sign, leading zeros, "-0" and other bytes around the number are not. ok is false
// for anything invalid.
func ParseInt(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	if len(b) == 1 {
		d := b[0] - '0'
		return int64(d), d <= 9
	}
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || u > (math.MaxUint64-d)/10 {
			return 0, false
		}
		u = u*10 + d
	}
	switch {
	case neg && u <= -math.MinInt64:
		return -int64(u), true
	case !neg && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}
