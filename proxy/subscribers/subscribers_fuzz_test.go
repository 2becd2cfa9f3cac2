package subscribers

import "testing"

// FuzzCountsReply checks that no reply of Redis makes Leash panic, and that counts are as many as
// asked for.
func FuzzCountsReply(f *testing.F) {
	f.Add([]byte("*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:0\r\n"))
	f.Add([]byte("*2\r\n$1\r\na\r\n:1\r\n"))
	f.Add([]byte("*4\r\n:1\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n"))
	f.Add([]byte("-ERR no\r\n"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if counts, ok := countsReply(reply, 2); ok != (len(counts) == 2) {
			t.Errorf("%q: got %v, %t", reply, counts, ok)
		}
	})
}

// TestCountsReply checks which counts are read.
func TestCountsReply(t *testing.T) {
	got, ok := countsReply([]byte("*4\r\n$1\r\na\r\n:3\r\n$1\r\nb\r\n:0\r\n"), 2)
	if !ok || len(got) != 2 || got[0] != 3 || got[1] != 0 {
		t.Errorf("got %v, %t", got, ok)
	}
}
