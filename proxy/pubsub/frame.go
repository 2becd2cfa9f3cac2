package pubsub

import "leash/proxy/resp"

// frame has the parts of a frame from Redis that matter here.
type frame struct {
	raw     []byte
	form    form
	kind    Kind
	name    []byte // the subscribed name; nil if Redis sends null
	channel []byte // the channel of a message
	payload []byte
}

type form uint8

const (
	formOther form = iota
	formMessage
	formJoined
	formLeft
	formPong
	formError
)

// parseFrame reads a whole frame in RESP2 or RESP3. Its slices point into raw.
func parseFrame(raw []byte) frame {
	f := frame{raw: raw}
	switch raw[0] {
	case '-':
		f.form = formError
	case '+', '$':
		f.form = formPong
	case '*', '>':
		f.parseArray()
	}
	return f
}

func (f *frame) parseArray() {
	var fields [4][]byte
	rest, n, ok := resp.CutHeader(f.raw, "*>")
	if !ok || n < 2 || n > len(fields) {
		return
	}
	read := 0
	for i := range n {
		after, size, ok := resp.CutHeader(rest, "$")
		if !ok || size > len(after)-2 {
			break // a number or null is not needed
		}
		fields[i], rest = after[:size], after[size+2:]
		read++
	}
	f.name = fields[1]
	if string(fields[0]) == "pong" {
		f.form = formPong
		return
	}
	for kind := range kinds {
		words := &kindWords[kind]
		switch string(fields[0]) {
		case words.message:
			if (kind == Pattern) != (n == 4) || read != n { // each field must be a text
				return
			}
			f.form, f.kind = formMessage, kind
			f.channel, f.payload = fields[n-2], fields[n-1]
			return
		case words.join:
			f.form, f.kind = formJoined, kind
			return
		case words.leave:
			f.form, f.kind = formLeft, kind
			return
		}
	}
}
