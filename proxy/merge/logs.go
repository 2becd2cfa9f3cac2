package merge

import (
	"cmp"
	"slices"
	"strconv"

	"leash/proxy/resp"
)

// Slowlog merges the entries of SLOWLOG GET. Each master numbers its entries itself.
func Slowlog(limit int64) Func {
	return newest(limit, func(entry [][]byte) (float64, bool) {
		if len(entry) < 2 {
			return 0, false
		}
		return decimal(entry[1])
	})
}

// ACLLog merges the entries of ACL LOG.
func ACLLog(limit int64) Func {
	return newest(limit, func(entry [][]byte) (float64, bool) {
		for i := 0; i+1 < len(entry); i += 2 {
			if string(value(entry[i])) == "age-seconds" {
				age, ok := decimal(entry[i+1])
				return -age, ok
			}
		}
		return 0, false
	})
}

// newest merges lists whose newest entry comes first, up to limit entries, or all if limit is
// negative. when returns the time of an entry from its fields.
func newest(limit int64, when func(entry [][]byte) (float64, bool)) Func {
	type dated struct {
		entry []byte
		at    float64
	}
	return func(replies []*Reply) (Reply, bool) {
		if len(replies) == 1 {
			return replies[0].move(), true
		}
		all, ok := allElements(replies)
		if !ok {
			return Reply{}, false
		}
		entries := make([]dated, len(all))
		for i, entry := range all {
			fields, ok := resp.Elements(entry)
			at, ok2 := when(fields)
			if !ok || !ok2 {
				return Reply{}, false
			}
			entries[i] = dated{entry, at}
		}
		slices.SortStableFunc(entries, func(a, b dated) int { return cmp.Compare(b.at, a.at) })
		if limit >= 0 && limit < int64(len(entries)) {
			entries = entries[:limit]
		}
		all = all[:0]
		for _, e := range entries {
			all = append(all, e.entry)
		}
		return Of(resp.Array(all)), true
	}
}

// Latest merges the replies to LATENCY LATEST. An entry is event, time, latest and greatest
// latency. The latest one is the newest of all masters.
func Latest(replies []*Reply) (Reply, bool) {
	all, ok := allElements(replies)
	if !ok {
		return Reply{}, false
	}
	var events []string
	latest := make(map[string][][]byte)
	for _, entry := range all {
		e, ok := resp.Elements(entry)
		if !ok || len(e) < 4 {
			return Reply{}, false
		}
		name := string(e[0])
		if old := latest[name]; old != nil {
			latest[name] = laterOf(old, e)
			continue
		}
		events = append(events, name)
		latest[name] = e
	}
	merged := make([][]byte, len(events))
	for i, name := range events {
		merged[i] = resp.Array(latest[name])
	}
	return Of(resp.Array(merged)), true
}

// laterOf returns the newer entry of an event, with the greatest latency of both.
func laterOf(a, b [][]byte) [][]byte {
	if amount(b[1]) > amount(a[1]) {
		a, b = b, a
	}
	if amount(b[3]) > amount(a[3]) {
		a[3] = b[3]
	}
	return a
}

// History puts the pairs of LATENCY HISTORY in the order of their times.
func History(replies []*Reply) (Reply, bool) {
	all, ok := allElements(replies)
	if !ok {
		return Reply{}, false
	}
	slices.SortStableFunc(all, func(a, b []byte) int { return cmp.Compare(timeOf(a), timeOf(b)) })
	return Of(resp.Array(all)), true
}

func timeOf(pair []byte) float64 {
	if e, ok := resp.Elements(pair); ok && len(e) > 0 {
		return amount(e[0])
	}
	return 0
}

// decimal returns the number in a scalar reply.
func decimal(element []byte) (n float64, ok bool) {
	n, err := strconv.ParseFloat(string(value(element)), 64)
	return n, err == nil
}

// amount is decimal with 0 for a reply without a number.
func amount(element []byte) float64 {
	n, _ := decimal(element)
	return n
}
