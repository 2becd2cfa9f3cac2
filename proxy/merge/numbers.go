package merge

import (
	"bytes"

	"leash/proxy/resp"
)

// Sum adds up numbers.
func Sum(replies []*Reply) (Reply, bool) {
	var sum int64
	for _, r := range replies {
		n, ok := resp.Int(r.Bytes())
		if !ok || (sum+n > sum) != (n > 0) {
			return Reply{}, false
		}
		sum += n
	}
	return Of(resp.AppendInt(nil, sum)), true
}

// Most takes the largest number, or 0 if that is larger. It is for commands whose number says
// whether a node found something.
func Most(replies []*Reply) (Reply, bool) {
	most := int64(0)
	for _, r := range replies {
		n, ok := resp.Int(r.Bytes())
		if !ok {
			return Reply{}, false
		}
		most = max(most, n)
	}
	return Of(resp.AppendInt(nil, most)), true
}

// Least takes the smallest number. For arrays of numbers, it takes the smallest of each position.
func Least(replies []*Reply) (Reply, bool) {
	var least []int64
	array := false
	for i, r := range replies {
		numbers, isArray, ok := ints(r.Bytes())
		if !ok || i > 0 && (isArray != array || len(numbers) != len(least)) {
			return Reply{}, false
		}
		if i == 0 {
			least, array = numbers, isArray
		}
		for j, n := range numbers {
			least[j] = min(least[j], n)
		}
	}
	var b []byte
	if array {
		b = resp.AppendArray(b, len(least))
	}
	for _, n := range least {
		b = resp.AppendInt(b, n)
	}
	return Of(b), len(replies) > 0
}

// ints returns the numbers of an integer reply or of an array of integers.
func ints(reply []byte) (numbers []int64, array, ok bool) {
	if n, ok := resp.Int(reply); ok {
		return []int64{n}, false, true
	}
	rest, count, ok := resp.CutHeader(reply, "*")
	if !ok {
		return nil, false, false
	}
	for range count {
		end := bytes.IndexByte(rest, '\n') + 1
		n, ok := resp.Int(rest[:end])
		if !ok {
			return nil, false, false
		}
		numbers, rest = append(numbers, n), rest[end:]
	}
	return numbers, true, true
}
