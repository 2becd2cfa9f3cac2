package call

import "leash/proxy/chunk"

// smallReply limits the replies that wait in their call's own memory, in bytes.
const smallReply = 1024

// buffer keeps a reply while an earlier reply is missing.
type buffer struct {
	small []byte
	rest  chunk.List
}

func (b *buffer) append(p []byte) {
	if b.rest.Len() == 0 && len(b.small)+len(p) <= smallReply {
		b.small = append(b.small, p...)
		return
	}
	b.rest.Append(p)
}

func (b *buffer) clear() {
	b.small = b.small[:0]
	b.rest.Clear()
}

func (b *buffer) moveTo(out *chunk.List) {
	out.Append(b.small)
	b.small = b.small[:0]
	out.Splice(&b.rest)
}
