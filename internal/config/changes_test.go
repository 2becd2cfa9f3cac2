package config

import (
	"fmt"
	"reflect"
	"testing"
)

// TestAdopt: what may change while Leash runs changes, and nothing else.
func TestAdopt(t *testing.T) {
	old, next := Default(), everythingParsed
	adopted, changes := old.Adopt(next)
	want := Default()
	want.MaxClients, want.MaxBulk, want.MaxArgs, want.MaxClientOutput = next.MaxClients, next.MaxBulk, next.MaxArgs, next.MaxClientOutput
	want.PeerTimeout, want.DrainDelay, want.DrainTimeout = next.PeerTimeout, next.DrainDelay, next.DrainTimeout
	want.OnDisconnect, want.MaxHold, want.MaxWaiters = next.OnDisconnect, next.MaxHold, next.MaxWaiters
	want.MaxPinned, want.LogLevel = next.MaxPinned, next.LogLevel
	want.SlowlogSlowerThan, want.SlowlogMaxLen = next.SlowlogSlowerThan, next.SlowlogMaxLen
	if !reflect.DeepEqual(adopted, want) {
		t.Errorf("got  %+v\nwant %+v", adopted, want)
	}
	if !reflect.DeepEqual(old, Default()) {
		t.Error("Adopt has changed its receiver")
	}
	byName := make(map[string]Change)
	for _, c := range changes {
		byName[c.Name] = c
	}
	for _, c := range []Change{
		{"max-clients", "10000", "12", true},
		{"max-bulk", "512MiB", "16MiB", true},
		{"drain-timeout", "10s", "0", true},
		{"max-hold", "0", "5m", true},
		{"log-level", "info", "debug", true},
		{"upstream", "", "a:1,[::1]:2", false},
		{"upstream-password", "", "(hidden)", false},
		{"failover-grace", "0", "auto", false},
	} {
		if byName[c.Name] != c {
			t.Errorf("got %+v, want %+v", byName[c.Name], c)
		}
	}
	if _, again := adopted.Adopt(adopted); len(again) > 0 {
		t.Errorf("differs from itself: %v", again)
	}
}

// TestAdoptHidesPasswords: a change of a password is told, but neither of the two.
func TestAdoptHidesPasswords(t *testing.T) {
	old, next := Default(), Default()
	old.UpstreamPassword, next.UpstreamPassword = "red", "blue"
	_, changes := old.Adopt(next)
	if got := fmt.Sprintf("%+v", changes); got != "[{Name:upstream-password Old:(hidden) New:(hidden) Live:false}]" {
		t.Errorf("got %s", got)
	}
	old.UpstreamPasswordFile, next.UpstreamPasswordFile = "a", "a"
	if _, changes = old.Adopt(next); len(changes) > 0 {
		t.Errorf("the content of a file is no setting: %+v", changes)
	}
}
