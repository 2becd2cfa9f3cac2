package cluster

import (
	"net"
	"testing"
)

// TestAddr checks how an announced address is read and shown.
func TestAddr(t *testing.T) {
	for _, test := range []struct {
		text   string
		addr   Addr
		shown  string
		bus    int
		isName bool
		wrong  bool
	}{
		{text: "", addr: Addr{}, shown: ":0"},
		{text: "10.1.2.3:7000", addr: Addr{"10.1.2.3", 7000}, shown: "10.1.2.3:7000", bus: 17000},
		{text: "[::1]:7000", addr: Addr{"::1", 7000}, shown: "::1:7000", bus: 17000},
		{text: "leash:60000", addr: Addr{"leash", 60000}, shown: "leash:60000", isName: true},
		{text: "leash", wrong: true},
		{text: "leash:65536", wrong: true},
	} {
		a, err := ParseAddr(test.text)
		if (err != nil) != test.wrong {
			t.Errorf("%q: %v", test.text, err)
		}
		if test.wrong {
			continue
		}
		if a != test.addr || a.addr() != test.shown || a.bus() != test.bus || a.isName() != test.isName {
			t.Errorf("%q: got %+v, %s, bus %d, name %t", test.text, a, a.addr(), a.bus(), a.isName())
		}
	}
}

// TestIDDependsOnTheAddress checks that each Leash with the same address has the same ID.
func TestIDDependsOnTheAddress(t *testing.T) {
	a, b := Addr{"leash", 7000}.ID(), Addr{"leash", 7001}.ID()
	if len(a) != 40 || a == b || a != (Addr{"leash", 7000}).ID() {
		t.Errorf("IDs %s and %s", a, b)
	}
}

// TestFirstAddr checks which address the clients of a unix socket get.
func TestFirstAddr(t *testing.T) {
	if got := FirstAddr(nil); got != (Addr{}) || got.ID() == "" {
		t.Errorf("without a port: got %+v", got)
	}
	all, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if got, want := FirstAddr([]net.Listener{all}), (Addr{"127.0.0.1", all.Addr().(*net.TCPAddr).Port}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
