package load

import (
	"bytes"
	"fmt"
	"strconv"
)

// A stream is what one client sends. It knows the expected replies, because only this client sets
// its keys.
type stream struct {
	records []record
	filled  int    // how many records have been set; the first GET comes after all are
	sets    int    // percent of the commands
	debt    int    // rises by sets a command; at 100 a SET is due
	random  uint64 // state of the choice of keys
}

// A record is a key with the prepared requests and replies about it.
type record struct {
	get   []byte // GET key
	set   []byte // SET key value
	reply []byte // what GET answers
	// stampSet and stampReply are the beginnings of the values in set and reply. Each SET writes
	// its number there, so that an old value differs from the new one.
	stampSet, stampReply []byte
	version              uint64
}

// stampSize is how many digits of a version are in a value, if it is long enough.
const stampSize = 16

func newStream(keys []string, valueSize, sets int, seed uint64) *stream {
	s := &stream{sets: sets, random: seed}
	for _, key := range keys {
		s.records = append(s.records, newRecord(key, valueSize))
	}
	return s
}

func newRecord(key string, valueSize int) record {
	value := make([]byte, valueSize)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	r := record{
		get:   fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key),
		set:   fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, valueSize, value),
		reply: fmt.Appendf(nil, "$%d\r\n%s\r\n", valueSize, value),
	}
	stamp := min(stampSize, valueSize)
	r.stampSet = r.set[len(r.set)-2-valueSize:][:stamp]
	r.stampReply = r.reply[len(r.reply)-2-valueSize:][:stamp]
	return r
}

// renew changes the value for the next SET.
func (r *record) renew() {
	r.version++
	v := r.version
	for i := range r.stampSet {
		r.stampSet[i] = '0' + byte(v%10)
		v /= 10
	}
	copy(r.stampReply, r.stampSet)
}

const okReply = "+OK\r\n"

// next appends the next n commands to request, and their expected replies to reply.
func (s *stream) next(n int, request, reply []byte) (newRequest, newReply []byte) {
	for range n {
		r, set := s.choose()
		if set {
			r.renew()
			request, reply = append(request, r.set...), append(reply, okReply...)
		} else {
			request, reply = append(request, r.get...), append(reply, r.reply...)
		}
	}
	return request, reply
}

// choose returns the record of the next command, and whether the command is SET.
func (s *stream) choose() (r *record, set bool) {
	if s.filled < len(s.records) {
		s.filled++
		return &s.records[s.filled-1], true
	}
	s.random = s.random*6364136223846793005 + 1442695040888963407
	r = &s.records[int(s.random>>33)%len(s.records)]
	if s.debt += s.sets; s.debt >= 100 {
		s.debt -= 100
		return r, true
	}
	return r, false
}

// KeysFor returns n keys of client number i that owns accepts; a nil owns accepts all.
func KeysFor(i, n int, owns func(key string) bool) []string {
	keys := make([]string, 0, n)
	for j := 0; len(keys) < n; j++ {
		key := "bench:" + strconv.Itoa(i) + ":" + strconv.Itoa(j)
		if owns == nil || owns(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// batches send a stream, some commands at a time.
type batches struct {
	*stream
	size  int
	reply []byte // expected for the batch in flight; the first got bytes have come
	got   int
}

// begin implements exchanger.
func (b *batches) begin(request []byte) []byte {
	request, b.reply = b.next(b.size, request, b.reply[:0])
	b.got = 0
	return request
}

// receive implements exchanger.
func (b *batches) receive(came, request []byte) ([]byte, bool, error) {
	rest := b.reply[b.got:]
	if len(came) > len(rest) || !bytes.Equal(came, rest[:len(came)]) {
		return request, false, b.wrong(came)
	}
	b.got += len(came)
	return request, b.got == len(b.reply), nil
}

// wrong is the error for an unexpected reply. It shows both replies from the line before the first
// difference.
func (b *batches) wrong(came []byte) error {
	rest := b.reply[b.got:]
	at := 0
	for at < min(len(came), len(rest)) && came[at] == rest[at] {
		at++
	}
	from := bytes.LastIndexByte(came[:at], '\n') + 1
	excerpt := func(b []byte) []byte { return b[min(from, len(b)):min(at+80, len(b))] }
	return fmt.Errorf("wrong reply: got %q, want %q", excerpt(came), excerpt(rest))
}
