package program

import (
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestHangupWithoutFiles: SIGHUP does not end a Leash that has no files to read again. The log says
// that it is ignored, and a hold stays.
func TestHangupWithoutFiles(t *testing.T) {
	t.Parallel()
	l, _ := startOne(t, time.Minute)
	holder := redistest.Connect(t, l.Addr)
	if got := holder.Do("LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	for range 3 {
		if err := l.Hangup(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the log says that SIGHUP is ignored", func() bool {
		line, err := l.Said("SIGHUP is ignored")
		return err == nil && line != ""
	})
	holder.Want(":1\r\n", "LOCK.RELEASE", "k")
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}
