package pubsub

import (
	"testing"

	"leash/proxy/resp"
)

// FuzzFrame checks that no whole RESP2 reply makes the reader of a subscription panic, and that a
// message has a channel and a payload.
func FuzzFrame(f *testing.F) {
	for _, frame := range []string{
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
		"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
		"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "+PONG\r\n",
		"-MOVED -5 127.0.0.1:1\r\n", "-MOVED\r\n", "-\r\n", "*0\r\n", "*-1\r\n", ":1\r\n",
		"*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", "*3\r\n$8\r\npmessage\r\n$1\r\nc\r\n$1\r\nx\r\n",
		"*3\r\n$7\r\nmessage\r\n$-1\r\n$-1\r\n", "*3\r\n$7\r\nmessage\r\n:1\r\n*1\r\n:1\r\n", "*1\r\n*1\r\n*0\r\n",
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		scan := resp.Scanner{RESP2: true}
		if n, done, err := scan.Scan(raw); err != nil || !done || n != len(raw) {
			return
		}
		frame := parseFrame(raw)
		if frame.form == formMessage && (frame.channel == nil || frame.payload == nil || frame.name == nil) {
			t.Errorf("%q: a message without its channel or payload", raw)
		}
	})
}
