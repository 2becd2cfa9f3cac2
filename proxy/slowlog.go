package proxy

import (
	"cmp"
	"slices"

	"leash/proxy/resp"
)

// slowlogSpecs are the logs of what took long.
func slowlogSpecs() commandSpecs {
	return commandSpecs{
		"SLOWLOG|GET": {(*session).slowlogGet, everyNode, "the newest entries of all masters"}, "SLOWLOG|LEN": {everyMaster(mergeSum), everyNode, ""},
		"SLOWLOG|RESET": {everyMaster(mergeOK), everyNode, ""},

		"LATENCY|LATEST": {everyMaster(mergeLatest), everyNode, ""}, "LATENCY|HISTORY": {everyMaster(mergeHistory), everyNode, ""},
		"LATENCY|RESET": {everyMaster(mergeSum), everyNode, ""}, "LATENCY|DOCTOR": {(*session).relayAny, anyNode, oneNode},
		"LATENCY|GRAPH": {(*session).relayAny, anyNode, oneNode}, "LATENCY|HISTOGRAM": {(*session).relayAny, anyNode, oneNode},
	}
}

// slowlogLength is how many entries SLOWLOG GET gives unless it is told.
const slowlogLength = 10

// slowlogGet answers SLOWLOG GET [count] with the newest entries of all
// masters. Their ids are each master's own.
func (s *session) slowlogGet(c *command, cmd resp.Command) bool {
	limit := int64(slowlogLength)
	if len(cmd.Args) > 2 {
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis will say what is wrong
	}
	return everyMaster(newest(limit, func(entry [][]byte) (float64, bool) {
		if len(entry) < 2 {
			return 0, false
		}
		return decimal(value(entry[1]))
	}))(s, c, cmd)
}

// newest merges lists that have their newest entry first, up to limit of them,
// all if it is negative. when says of an entry's fields how new it is.
func newest(limit int64, when func(entry [][]byte) (float64, bool)) merge {
	return func(f *fanout) []byte {
		if len(f.parts) == 1 {
			return f.parts[0].whole()
		}
		type dated struct {
			entry []byte
			at    float64
		}
		all, ok := f.elements()
		if !ok {
			return nil
		}
		var entries []dated
		for _, entry := range all {
			fields, ok := elements(entry)
			at, ok2 := when(fields)
			if !ok || !ok2 {
				return nil
			}
			entries = append(entries, dated{entry, at})
		}
		slices.SortStableFunc(entries, func(a, b dated) int { return cmp.Compare(b.at, a.at) })
		if limit >= 0 && limit < int64(len(entries)) {
			entries = entries[:limit]
		}
		all = all[:0]
		for _, e := range entries {
			all = append(all, e.entry)
		}
		return joined(all)
	}
}

// mergeLatest merges LATENCY LATEST, of which an entry is event, time, latest
// and greatest latency: the latest is the newest of all masters.
func mergeLatest(f *fanout) []byte {
	all, ok := f.elements()
	if !ok {
		return nil
	}
	var events []string
	latest := make(map[string][][]byte)
	for _, entry := range all {
		e, ok := elements(entry)
		if !ok || len(e) < 4 {
			return nil
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
		merged[i] = joined(latest[name])
	}
	return joined(merged)
}

// laterOf returns the newer entry of an event, with the greatest of both.
func laterOf(a, b [][]byte) [][]byte {
	if amount(b[1]) > amount(a[1]) {
		a, b = b, a
	}
	if amount(b[3]) > amount(a[3]) {
		a[3] = b[3]
	}
	return a
}

// mergeHistory puts the pairs of LATENCY HISTORY in the order of their times.
func mergeHistory(f *fanout) []byte {
	all, ok := f.elements()
	if !ok {
		return nil
	}
	slices.SortStableFunc(all, func(a, b []byte) int { return cmp.Compare(timeOf(a), timeOf(b)) })
	return joined(all)
}

func timeOf(pair []byte) float64 {
	if e, ok := elements(pair); ok && len(e) > 0 {
		return amount(e[0])
	}
	return 0
}

// amount is the number that a scalar reply holds, 0 if it holds none.
func amount(element []byte) float64 {
	n, _ := decimal(value(element))
	return n
}
