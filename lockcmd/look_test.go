package lockcmd

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// promoted is a server that was a replica until now.
func promoted(t testing.TB) *redistest.Server {
	t.Helper()
	old, server := redistest.Start(t), redistest.Start(t)
	c := server.Client()
	host, port, _ := strings.Cut(old.Addr, ":")
	if err := c.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the replica is there", func() bool {
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && infoField(info, "master_link_status") == "up"
	})
	if err := c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestR13GraceAtTheMemoryLimit: a new master is known as one also when it takes no more data.
func TestR13GraceAtTheMemoryLimit(t *testing.T) {
	server := promoted(t)
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	s := leash(t, dialServer(t, server.Addr), Config{FailoverGrace: time.Hour})
	s.graces.look(time.Now(), time.Now().Add(soon))
	if masters, _ := s.graces.ongoing(); masters != 1 {
		t.Errorf("%d masters are in grace", masters)
	}
	if n := server.Client().Exists(t.Context(), "leash:master").Val(); n != 1 {
		t.Error("it has no mark")
	}
}
