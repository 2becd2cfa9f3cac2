package leashtest

import (
	"strings"
	"testing"
)

func TestGoroutines(t *testing.T) {
	dir := t.TempDir()
	binary := Binary(t)
	l, err := Start(t.Context(), binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	got, err := l.Goroutines()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "    1 leash/proxy.(*Server).Serve, made by nobody\n") || !strings.Contains(got, ", made by leash/internal/program.") {
		t.Errorf("got\n%s", got)
	}
	if l.Crashed() {
		t.Error("Leash counts as crashed")
	}
}
