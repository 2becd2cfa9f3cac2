package proxy

import (
	"cmp"
	"slices"

	"leash/proxy/resp"
)

// slowlogSpecs are the commands for the logs of slow commands and events.
func slowlogSpecs() commandSpecs {
	return commandSpecs{
		"SLOWLOG|GET": {(*session).slowlogGet, everyNode, "the newest entries of all masters"}, "SLOWLOG|LEN": {everyMaster(mergeSum), everyNode, ""},
		"SLOWLOG|RESET": {everyMaster(mergeOK), everyNode, ""},

		"LATENCY|LATEST": {everyMaster(mergeLatest), everyNode, ""}, "LATENCY|HISTORY": {everyMaster(mergeHistory), everyNode, ""},
		"LATENCY|RESET": {everyMaster(mergeSum), everyNode, ""}, "LATENCY|DOCTOR": {(*session).relayAny, anyNode, oneNode},
		"LATENCY|GRAPH": {(*session).relayAny, anyNode, oneNode}, "LATENCY|HISTOGRAM": {(*session).relayAny, anyNode, oneNode},
	}
}

// slowlogLength is the default number of entries of SLOWLOG GET.
const slowlogLength = 10

// slowlogGet answers SLOWLOG GET [count] with the newest entries of all masters. Each master
// numbers its entries itself.
func (s *session) slowlogGet(c *command, cmd resp.Command) bool {
	limit := int64(slowlogLength)
	if len(cmd.Args) > 2 {
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports what is wrong
	}
	return everyMaster(newest(limit, func(entry [][]byte) (float64, bool) {
		if len(entry) < 2 {
			return 0, false
		}
		return decimal(value(entry[1]))
	}))(s, c, cmd)
}

// newest merges lists whose newest entry comes first, up to limit entries, or all if limit is
// negative. when returns the time of an entry from its fields.
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

// mergeLatest merges LATENCY LATEST. An entry is event, time, latest and greatest latency. The
// latest one is the newest of all masters.
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

// amount returns the number in a scalar reply, or 0 if there is none.
func amount(element []byte) float64 {
	n, _ := decimal(value(element))
	return n
}
