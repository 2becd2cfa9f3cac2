package audit

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// line is a line of the log. Its names are part of what users rely on.
type line struct {
	Time      string  `json:"time"`
	Event     string  `json:"event"`
	Reason    string  `json:"reason,omitempty"`
	DB        int     `json:"db"`
	Key       string  `json:"key,omitempty"`
	KeyBase64 string  `json:"key_base64,omitempty"` // in place of a key that is not UTF-8
	Mode      string  `json:"mode"`
	Owner     string  `json:"owner"`
	Token     int64   `json:"token"`
	User      string  `json:"user"`
	Client    string  `json:"client"`
	Waited    float64 `json:"waited_seconds"`
	Held      float64 `json:"held_seconds"`
}

// append appends the line of an event, in UTC and with microseconds.
func (e event) append(b []byte) []byte {
	c := e.change
	l := line{
		Time: e.at.UTC().Format("2006-01-02T15:04:05.000000Z"), Event: string(c.Kind), Reason: c.Reason, DB: c.DB,
		Key: c.Key, Mode: c.Mode, Owner: c.Owner, Token: c.Token,
		User: c.Client.User, Client: c.Client.Name, Waited: seconds(c.Waited), Held: seconds(c.Held),
	}
	if !utf8.ValidString(c.Key) {
		l.Key, l.KeyBase64 = "", base64.StdEncoding.EncodeToString([]byte(c.Key))
	}
	text, err := json.Marshal(l)
	if err != nil { // no field can cause one
		return b
	}
	return append(append(b, text...), '\n')
}

// seconds is a duration in whole milliseconds, in seconds.
func seconds(d time.Duration) float64 { return d.Truncate(time.Millisecond).Seconds() }
