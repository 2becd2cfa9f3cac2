package testbed

import (
	"strings"
	"testing"
	"time"
)

const programRound = 100 * time.Millisecond

func TestProgram(t *testing.T) {
	p, err := StartProgram(t.TempDir(), "test", "sh", "-c", `while read -r run n w r; do echo begin; echo over; echo "end $n 1000 10 $r"; done`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		marks := 0
		s, err := p.Run(t.Context(), 7, 0, programRound, func() error { marks++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if s.Commands != 7 || s.Elapsed != 1000 || s.P50 != 10 || s.P99 != 100 || marks != 2 {
			t.Errorf("got %+v, %d marks", s, marks)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestProgramThatFails(t *testing.T) {
	for script, want := range map[string]string{
		"read -r run; echo no lock >&2; exit 1":                 "no lock",
		"read -r run; echo begin; echo begin; read -r more":     `it said "begin", want "over"`,
		"read -r run; echo begin; echo over; echo end; sleep 1": `it said "end"`,
	} {
		p, err := StartProgram(t.TempDir(), "test", "sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), 1, 0, programRound, func() error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := StartProgram(t.TempDir(), "test", "/nonexistent"); err == nil {
		t.Error("no error")
	}
}
