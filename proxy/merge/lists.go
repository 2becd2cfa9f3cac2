package merge

import "leash/proxy/resp"

// Values puts the elements of arrays in the order of the command's keys. The lists may be large. So
// the merged reply uses the memory of the replies.
func Values(replies []*Reply) (merged Reply, ok bool) {
	keys := 0
	for _, r := range replies {
		keys += len(r.Keys)
	}
	of := make([]*Reply, keys) // the reply with each key
	for _, r := range replies {
		rest, n, ok := resp.CutHeader(r.start, "*")
		if !ok || n != len(r.Keys) {
			return merged, false
		}
		r.start = rest
		for _, key := range r.Keys {
			if key < 0 || key >= keys || of[key] != nil {
				return merged, false
			}
			of[key] = r
		}
	}
	merged.start = resp.AppendArray(nil, keys)
	for _, r := range of {
		if !r.moveElement(&merged.rest) {
			return merged, false
		}
	}
	return merged, true
}

// Lists joins lists. The merged one has the type of the first: an array or a set. The merged reply
// uses the memory of the replies.
func Lists(replies []*Reply) (merged Reply, ok bool) {
	total, mark := 0, byte(0)
	for i, r := range replies {
		rest, n, ok := resp.CutHeader(r.start, "*~")
		if !ok || total+n < total {
			return merged, false
		}
		if i == 0 {
			mark = r.start[0]
		}
		merged.rest.Append(rest)
		merged.rest.Splice(&r.rest)
		total += n
	}
	merged.start = resp.AppendArray(nil, total)
	merged.start[0] = mark
	return merged, len(replies) > 0
}

// AtMost joins arrays, up to limit elements.
func AtMost(limit int64) Func {
	return func(replies []*Reply) (Reply, bool) {
		all, ok := allElements(replies)
		if !ok {
			return Reply{}, false
		}
		return Of(resp.Array(all[:min(int64(len(all)), max(limit, 0))])), true
	}
}

func allElements(replies []*Reply) (all [][]byte, ok bool) {
	for _, r := range replies {
		more, ok := resp.Elements(r.Bytes())
		if !ok {
			return nil, false
		}
		all = append(all, more...)
	}
	return all, true
}

// RandomKey chooses among pairs of replies: a node's key and its number of keys. The probability of
// a key is its node's share of all keys. A reply without a number counts as one key. A node without
// keys answers nil for the key. random returns a number from 0 to n-1.
func RandomKey(random func(n int64) int64) Func {
	return func(replies []*Reply) (Reply, bool) {
		if len(replies) == 0 || len(replies)%2 != 0 {
			return Reply{}, false
		}
		chosen, total := replies[0], int64(0)
		for i := 0; i < len(replies); i += 2 {
			key := replies[i]
			if isNil(key.Bytes()) {
				continue
			}
			size, _ := resp.Int(replies[i+1].Bytes())
			size = min(max(size, 1), maxNodeKeys)
			total += size
			if random(total) < size {
				chosen = key
			}
		}
		return chosen.move(), true
	}
}

// maxNodeKeys limits the number that counts for one node, so that the sum cannot overflow.
const maxNodeKeys = 1 << 40

// isNil reports whether a reply is the null of either protocol.
func isNil(reply []byte) bool {
	return string(reply) == resp.NilBulk || string(reply) == resp.Null
}
