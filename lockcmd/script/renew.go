package script

import "time"

// RenewHold makes a hold last so long at least, from sent on. held is false if it is not there.
func (c *Client) RenewHold(
	r Ref, m *Mode, owner string, lasts time.Duration, until time.Time,
) (held bool, sent time.Time, err error) {
	call := r.renewal(m, owner, lasts)
	code, err := c.renewOne(call, until)
	return code > 0, call.Sent, err
}

// CheckHold returns how long a hold lasts, from sent on. left is 0 if it has no end, and negative
// if it is not there. It waits while a slot migration splits the keys.
func (c *Client) CheckHold(
	r Ref, m *Mode, owner string, until time.Time,
) (left time.Duration, sent time.Time, err error) {
	call := r.renewal(m, owner, 0)
	call.OutlastsMigration = true
	code, err := c.renewOne(call, until)
	return Millis(code - 1), call.Sent, err
}

// renewal is the call that renews or, with 0, checks one hold.
func (r Ref) renewal(m *Mode, owner string, lasts time.Duration) *scriptCall {
	return &scriptCall{
		Script: m.Renew, DB: r.Lock.DB, Keys: m.Keys(r.Lock.Key),
		Args: words(lasts.Milliseconds(), owner, RecordPrefix(r.Token, r.Carrier)),
	}
}

// renewOne sends a call about one hold.
func (c *Client) renewOne(call *scriptCall, until time.Time) (code int64, err error) {
	code, err = answer(c, call, until, func(reply any) (int64, bool) {
		n, ok := listOf(reply)
		if !ok || len(n) != 1 {
			return 0, false
		}
		return n[0], n[0] >= -1
	})
	if err == nil && code < 0 {
		return 0, ErrRefused // Redis could not say
	}
	return code, err
}
