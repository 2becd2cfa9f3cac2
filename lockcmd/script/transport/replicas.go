package transport

import (
	"time"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// A grant counts only if enough replicas have it, when the command has REPLICAS (R32). Redis's WAIT
// tells, for the writes of its own connection, and blocks that connection. So it gets a connection
// alone, and a script there writes the first key anew.

// replicaMargin is the time between the end of WAIT and the end of its attempt.
const replicaMargin = 50 * time.Millisecond

// waitForReplicas waits until enough replicas have what Redis has of the call's first key now, or
// until limit is near. It sets call.GotReplicas, to 0 if Redis does not tell.
func (c *Client) waitForReplicas(call *Call, limit time.Time) {
	call.GotReplicas = 0
	touch := Call{Script: call.Touch, DB: call.DB, Keys: call.Keys[:1], Sent: call.Sent}
	patience := max(min(call.ReplicaTimeout, time.Until(limit)-replicaMargin), time.Millisecond)
	commands := resp.AppendCommand(touch.append(nil, "EVAL", touch.Script.Source), "WAIT", Decimal(call.WantReplicas),
		MillisText(patience))
	text, _, err := c.Links.Alone(limit, call.DB, slots.Of([]byte(call.Keys[0])), 2, commands, nil)
	if err != nil {
		return
	}
	if replies, ok := resp.Elements(append([]byte("*2\r\n"), text...)); ok {
		if touched, _ := resp.Int(replies[0]); touched == 1 {
			call.GotReplicas, _ = resp.Int(replies[1])
		}
	}
}
