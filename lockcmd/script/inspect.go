package script

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script/transport"
)

// Inspection is what Redis has of a lock. Without holds the lock is free.
type Inspection struct {
	Left   time.Duration // negative: no TTL
	Now    int64         // Redis's clock, ms
	Queue  int           // FAIR waiters of all Leashes and Java; 0 in a slot migration
	Holds  []Hold        // held through any Leash, newest first
	Others []Hold        // held by others, without a record
}

// Shown is the hold that LOCK.INFO shows: the writer, or the oldest one of a Leash, or else any. A
// reader has the sum of all readers' counts. ok is false if the lock is free.
func (info Inspection) Shown() (h Hold, ok bool) {
	count := int64(0)
	for _, f := range slices.Concat(info.Others, info.Holds) {
		if f.Mode == Write {
			return f, true
		}
		h, ok = f, true
		count += f.Count
	}
	h.Count = count
	return h, ok
}

// Find returns the hold with that token.
func (info Inspection) Find(token int64) (h Hold, ok bool) {
	for _, h := range info.Holds {
		if h.Record.Token == token {
			return h, true
		}
	}
	return Hold{}, false
}

// EndedBefore reports whether the hold with that token ended before a present hold was granted.
// Then no new master can have forgotten it.
func (info Inspection) EndedBefore(token int64) bool {
	return slices.ContainsFunc(info.Holds, func(h Hold) bool { return !h.Mode.Shared && h.Record.Token > token })
}

// Hold is a hold as Redis has it.
type Hold struct {
	Mode   *Mode
	Owner  string
	Count  int64
	Record Record // zero if it has none
	Text   string // the record's bytes
}

// Inspect reads a lock. The error is ErrRefused when Redis did not answer in time.
func (c *Client) Inspect(lock Lock, until time.Time) (Inspection, error) {
	n, reply, err := c.read(&transport.Call{
		Script: inspectScript, DB: lock.DB, Keys: []string{lock.Key, QueueKeys(lock.Key)[0]}, MinKeys: 1,
	}, "iiii", "ss", until)
	if err != nil {
		return Inspection{}, err
	}
	info := Inspection{Left: Millis(n[0]), Now: n[1]*1000 + n[2]/1000, Queue: int(n[3])}
	f := Hold{Mode: Plain}
	for i := 4; i < len(n); i += 2 {
		field, value := transport.TextAt(reply, i), transport.TextAt(reply, i+1)
		switch {
		case field == RecordField:
			f.Text = value
		case field != "mode":
			f.Owner = field
			f.Count, _ = strconv.ParseInt(value, 10, 64)
		case value == Read.Name, value == Write.Name:
			return c.inspectRW(lock, until)
		}
	}
	if f.Owner != "" {
		info.add(f)
	}
	return info, nil
}

// add adds a hold with its record.
func (info *Inspection) add(f Hold) {
	r, ours := ParseRecord(f.Text)
	if !ours {
		info.Others = append(info.Others, f)
		return
	}
	if f.Record = r; f.Mode == Plain && r.Terms().Fair {
		f.Mode = Fair
	}
	info.Holds = append(info.Holds, f)
}

// read calls a script that reads a lock. Its reply has items of the kinds of first, then any number
// of the group more.
func (c *Client) read(call *transport.Call, first, more string, until time.Time) (n []int64, reply any, err error) {
	n, err = transport.Ask(c.Client, call, until, func(r any) ([]int64, bool) {
		n, kinds := transport.Items(r)
		reply = r
		return n, kinds == first+strings.Repeat(more, max(len(kinds)-len(first), 0)/len(more))
	})
	return n, reply, transport.ErrorOfRead(err)
}

// inspectRW reads a read-write lock.
func (c *Client) inspectRW(lock Lock, until time.Time) (Inspection, error) {
	n, reply, err := c.read(&transport.Call{
		Script: inspectRWScript, DB: lock.DB, Keys: Read.Keys(lock.Key), OutlastsMigration: true,
	}, "iii", "sss", until)
	if err != nil {
		return Inspection{}, err
	}
	info := Inspection{Left: Millis(n[0]), Now: n[1]*1000 + n[2]/1000}
	for i := 3; i < len(n); i += 3 {
		f := Hold{Mode: Read, Owner: transport.TextAt(reply, i), Text: transport.TextAt(reply, i+2)}
		f.Count, _ = strconv.ParseInt(transport.TextAt(reply, i+1), 10, 64)
		if owner, ok := strings.CutSuffix(f.Owner, ":write"); ok {
			f.Mode, f.Owner = Write, owner
		}
		info.add(f)
	}
	slices.SortFunc(info.Holds, func(a, b Hold) int { return cmp.Compare(b.Record.Token, a.Record.Token) })
	return info, nil
}

// Locks returns which of these keys show a lock or a semaphore that somebody holds through a Leash,
// and their names: a plain lock's own key, or {name}:leash.
func (c *Client) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	var cmds []transport.Command
	for _, key := range keys {
		cmds = append(cmds, transport.Command{Key: key, Words: []string{"HGET", key, RecordField}},
			transport.Command{Key: key, Words: []string{"HLEN", key}})
	}
	replies := c.DoAll(c.limit(ctx), db, cmds)
	for i, key := range keys {
		record, fields := replies[2*i], replies[2*i+1]
		if record.Err != nil && transport.Judge(record.Err) != transport.Answered {
			return nil, record.Err
		}
		// Otherwise the field of the owner was deleted (R11).
		n, _ := fields.Int()
		if _, ours := ParseRecord(record.String()); ours && n > 1 {
			names = append(names, key)
			continue
		}
		name, ok := lockOfRecords(key)
		if !ok {
			continue
		}
		switch held, err := c.held(Lock{DB: db, Key: name}); {
		case err != nil:
			return nil, err
		case held:
			names = append(names, name)
		}
	}
	return names, nil
}

// lockOfRecords returns the name of the lock whose records may be in a key, see RecordsKey.
func lockOfRecords(key string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(key, bracedRecords); ok && isBraced(name) {
		return name, true
	}
	name, ok = strings.CutSuffix(key, ":leash")
	if ok && isBraced(name) {
		return name[1 : len(name)-1], true
	}
	return name, ok && strings.Contains(name, "{")
}

// held reports whether somebody holds the lock, or a permit of the semaphore, that has its
// records in {name}:leash.
func (c *Client) held(lock Lock) (bool, error) {
	if c.IsCluster && !OneSlot(lock.Key) {
		return false, nil
	}
	held, err := c.AskDone(&transport.Call{
		Script: heldScript, DB: lock.DB, Keys: []string{lock.Key, PermitsKey(lock.Key), RecordsKey(lock.Key)},
	}, time.Now().Add(c.Timeout))
	if transport.KeysSplit(err) { // in a slot migration, records are enough
		return true, nil
	}
	return held, err
}
