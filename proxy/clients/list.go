package clients

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/tracking"
)

const (
	msgClientType = "ERR Unknown client type '%s'"
	msgClientID   = "ERR Invalid client ID"
)

// list answers CLIENT LIST [TYPE type | ID id …]
// (https://redis.io/docs/latest/commands/client-list/).
func list(by Caller, cmd resp.Command) bool {
	wanted, problem := parseListFilter(cmd.Args)
	if problem != "" {
		return by.Router.Fail(problem)
	}
	if !by.Router.Permitted("CLIENT", "LIST", "TYPE", "?") {
		return true
	}
	var b bytes.Buffer
	for _, one := range by.Clients() {
		if d := one.Describe(); wanted(d) {
			d.writeTo(&b)
		}
	}
	return by.Router.Answer(resp.AppendText(nil, by.Router.Lane.RESP3, b.String()))
}

// parseListFilter returns a function that selects the clients to list, or the error.
func parseListFilter(args [][]byte) (wanted func(*Description) bool, problem string) {
	switch {
	case len(args) == 2:
		return func(*Description) bool { return true }, ""
	case len(args) == 4 && resp.IsWord(args[2], "TYPE"):
		k, ok := kindOf(args[3])
		if !ok {
			return nil, fmt.Sprintf(msgClientType, command.Quoted(args[3], command.MaxQuoted))
		}
		return func(d *Description) bool { return d.kind() == k }, ""
	case len(args) > 3 && resp.IsWord(args[2], "ID"):
		var ids []int64
		for _, arg := range args[3:] {
			id, ok := resp.ParseInt(arg)
			if !ok {
				return nil, msgClientID
			}
			ids = append(ids, id)
		}
		return func(d *Description) bool { return slices.Contains(ids, d.ID) }, ""
	}
	return nil, command.SyntaxError
}

func info(by Caller, _ resp.Command) bool {
	var b bytes.Buffer
	by.Describe().writeTo(&b)
	return by.Router.Answer(resp.AppendText(nil, by.Router.Lane.RESP3, b.String()))
}

// Description is what CLIENT LIST and operators see of a client.
type Description struct {
	ID              int64
	Addr, LocalAddr string // as Endpoint formats them
	Descriptor      int    // of the socket
	Labels
	Age, Idle        time.Duration
	Unix, Blocked    bool // by a unix socket; waits in a command that blocks
	Monitoring       bool
	Tracking         tracking.View
	NoEvict          bool
	DB, Protocol     int
	Sub, PSub, SSub  int // subscriptions
	Multi            int // commands queued in MULTI, -1 outside of it
	Requests, Output int // bytes of commands in flight, bytes of output that waits
	User             string
	Command          string // the last one; NULL for none
	Holds            int    // locks and permits that its connection carries; CLIENT LIST does not show them
}

// Library is the name and the version of the client's library. It is empty for none.
func (d *Description) Library() string { return strings.TrimSpace(d.LibName + " " + d.LibVersion) }

// Contains reports whether the address, the name, the user, the library or the command contains a
// text.
func (d *Description) Contains(text string) bool {
	return slices.ContainsFunc([]string{d.Addr, d.Name, d.User, d.Library(), d.Command}, func(field string) bool {
		return strings.Contains(field, text)
	})
}

// Endpoint formats an address as Redis does. A client of a unix socket has no address of its own,
// so it gets the path of the socket, which is local.
func Endpoint(addr, local net.Addr) string {
	if addr.Network() != "unix" {
		return addr.String()
	}
	if local != nil {
		addr = local
	}
	return addr.String() + ":0"
}

// kind is a value of the option TYPE of CLIENT LIST and CLIENT KILL.
type kind uint8

const (
	normalClient kind = iota
	pubsubClient
	replicaClient // no session is one
	masterClient  // no session is one
)

func kindOf(arg []byte) (k kind, ok bool) {
	switch {
	case resp.IsWord(arg, "NORMAL"):
		return normalClient, true
	case resp.IsWord(arg, "PUBSUB"):
		return pubsubClient, true
	case resp.IsWord(arg, "REPLICA"), resp.IsWord(arg, "SLAVE"):
		return replicaClient, true
	case resp.IsWord(arg, "MASTER"):
		return masterClient, true
	}
	return 0, false
}

func (d *Description) kind() kind {
	if d.Sub+d.PSub+d.SSub > 0 {
		return pubsubClient
	}
	return normalClient
}

// Flags returns the letters in the field flags of CLIENT LIST.
func (d *Description) Flags() string {
	var b []byte
	for _, f := range []struct {
		on     bool
		letter byte
	}{
		{d.Monitoring, 'O'}, {d.kind() == pubsubClient, 'P'}, {d.Multi >= 0, 'x'}, {d.Blocked, 'b'},
		{d.Tracking.On, 't'}, {d.Tracking.Broken, 'R'}, {d.Tracking.Broadcast, 'B'},
		{d.Unix, 'U'}, {d.NoEvict, 'e'},
	} {
		if f.on {
			b = append(b, f.letter)
		}
	}
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// writeTo writes a line of CLIENT LIST. Fields that describe Redis's own memory are 0.
func (d *Description) writeTo(b *bytes.Buffer) {
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d "+
		"multi=%d "+
		"qbuf=%d qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s "+
		"user=%s redir=%d resp=%d "+
		"lib-name=%s lib-ver=%s\n",
		d.ID, d.Addr, d.LocalAddr, d.Descriptor, d.Name, int(d.Age.Seconds()), int(d.Idle.Seconds()), d.Flags(), d.DB,
		d.Sub, d.PSub, d.SSub, d.Multi,
		d.Requests, d.Output, d.Requests+d.Output, d.Command, d.User, d.Tracking.Redirect, d.Protocol,
		d.LibName, d.LibVersion)
}
