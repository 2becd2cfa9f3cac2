package faultproxy

import "sync/atomic"

// Stats counts what a proxy has done since it was started.
type Stats struct {
	Accepted int64 // connections accepted
	Open     int64 // connections there are now
	Commands int64 // complete commands read from clients, on connections that are parsed
	// complete replies read from the target that belong to a command, including discarded ones
	Replies       int64
	BytesToTarget int64 // bytes written to the target
	BytesToClient int64 // bytes written to clients
	Dropped       int64 // connections ended by DropBefore or DropAfter
	Cut           int64 // connections ended by Cut
	Corrupted     int64 // replies and messages replaced by Corrupt
}

type counters struct {
	accepted, commands, replies, toTarget, toClient, dropped, cut, corrupted atomic.Int64
}

// Stats returns the counts as they are now.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	open := len(p.conns)
	p.mu.Unlock()
	return Stats{
		Accepted: p.stats.accepted.Load(), Open: int64(open),
		Commands: p.stats.commands.Load(), Replies: p.stats.replies.Load(),
		BytesToTarget: p.stats.toTarget.Load(), BytesToClient: p.stats.toClient.Load(),
		Dropped: p.stats.dropped.Load(), Cut: p.stats.cut.Load(), Corrupted: p.stats.corrupted.Load(),
	}
}
