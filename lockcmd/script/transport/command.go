package transport

import (
	"errors"
	"fmt"
	"time"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Command is a command of Redis that is no lock script.
type Command struct {
	Key   string // of the node that gets it
	Words []string
}

// Do runs a command on the node of its key, in a database. It returns Redis's reply as it came. The
// error is a resp.ReplyError, ErrRefused if Redis certainly did not get the command, or any other
// if nobody knows. Do blocks until Redis answers, until the given time, or for MaxAttempt.
func (c *Client) Do(until time.Time, db int, cmd Command) (reply []byte, err error) {
	text, sent, err := c.Links.Script(c.attemptEnd(until), nil, db, slots.Of([]byte(cmd.Key)),
		resp.AppendCommand(nil, cmd.Words...), nil)
	return replyOf(text, sent, err)
}

// replyOf is the reply in text, or the error.
func replyOf(text []byte, sent bool, err error) ([]byte, error) {
	switch {
	case err != nil && !sent:
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return nil, err
	}
	if err := resp.ErrorIn(text); err != nil {
		return nil, err
	}
	return text, nil
}

// DoAlone is Do on a connection that no other caller has meanwhile, to the node of a slot. It
// follows no redirect, so the reply is certainly that of this node.
func (c *Client) DoAlone(until time.Time, slot slots.Slot, words ...string) (reply []byte, err error) {
	text, sent, err := c.Links.Alone(c.CapAtStop(until), 0, slot, 1, resp.AppendCommand(nil, words...), nil)
	return replyOf(text, sent, err)
}

// RunAlone is DoAlone for a call of a script. The reply is as for Ask.
func (c *Client) RunAlone(until time.Time, slot slots.Slot, cmd Command) (reply any, err error) {
	text, err := c.DoAlone(until, slot, cmd.Words...)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// InfoField reads a field of a section of INFO of the node of a slot, "" if it is missing.
func (c *Client) InfoField(until time.Time, slot slots.Slot, section, name string) (string, error) {
	reply, err := c.DoAlone(until, slot, "INFO", section)
	return resp.InfoField(Reply{Text: reply, Err: err}.String(), name), err
}

// ConfigValue reads a setting of the node of a slot, "" if it has none of that name.
func (c *Client) ConfigValue(until time.Time, slot slots.Slot, name string) (string, error) {
	reply, err := c.DoAlone(until, slot, "CONFIG", "GET", name)
	if err != nil {
		return "", err
	}
	if pair, ok := resp.Elements(reply); ok && len(pair) == 2 {
		return Reply{Text: pair[1]}.String(), nil
	}
	return "", nil
}

// Reply is what came of one of several commands.
type Reply struct {
	Text []byte // Redis's reply as it came
	Err  error  // as of Do
}

// DoAll runs commands in one database, those for one node in one write. It is like Do for each.
func (c *Client) DoAll(until time.Time, db int, cmds []Command) []Reply {
	replies, byNode := make([]Reply, len(cmds)), make(map[string][]int)
	for i, cmd := range cmds {
		node := c.Links.NodeAddr(slots.Of([]byte(cmd.Key)))
		byNode[node] = append(byNode[node], i)
	}
	for _, some := range byNode {
		c.doTogether(until, db, cmds, some, replies)
	}
	return replies
}

// doTogether runs some of the commands in one write. Those whose slot has moved it runs alone.
func (c *Client) doTogether(until time.Time, db int, cmds []Command, some []int, replies []Reply) {
	var all []byte
	for _, i := range some {
		all = resp.AppendCommand(all, cmds[i].Words...)
	}
	slot := slots.Of([]byte(cmds[some[0]].Key))
	text, sent, err := c.Links.Scripts(c.CapAtStop(until), db, slot, len(some), all, nil)
	for _, i := range some {
		own := text
		if err == nil {
			scan := resp.Scanner{RESP2: true}
			n, done, bad := scan.Scan(text)
			if bad != nil || !done {
				err = errors.Join(ErrUnknown, ErrShape)
			}
			own, text = text[:n], text[n:]
		}
		replies[i].Text, replies[i].Err = replyOf(own, sent, err)
		if HasCode(replies[i].Err, "MOVED") || HasCode(replies[i].Err, "ASK") {
			replies[i].Text, replies[i].Err = c.Do(until, db, cmds[i])
		}
	}
}

// Int is the number in a reply; ok is false for all others.
func (r Reply) Int() (n int64, ok bool) {
	if r.Err != nil {
		return 0, false
	}
	return resp.Int(r.Text)
}

// String is the text in a reply, "" for all others.
func (r Reply) String() string {
	if r.Err != nil {
		return ""
	}
	text, _ := resp.Text(r.Text)
	return string(text)
}

// Command is a call of the script by its text. Without keys, the caller sets the key of its node.
func (sc *Script) Command(keys, args []string) Command {
	words := append(make([]string, 0, 3+len(keys)+len(args)), "EVAL", sc.Source, Decimal(len(keys)))
	cmd := Command{Words: append(append(words, keys...), args...)}
	if len(keys) > 0 {
		cmd.Key = keys[0]
	}
	return cmd
}
