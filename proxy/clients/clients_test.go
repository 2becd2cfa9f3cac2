package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/proxy/tracking"
)

// fake is a session that is connected with others.
type fake struct {
	Session
	d      Description
	others *[]Client
	ended  bool
}

func (f *fake) Describe() *Description { return &f.d }
func (f *fake) Clients() []Client      { return *f.others }
func (f *fake) Kill() bool {
	was := f.ended
	f.ended = true
	return !was
}

func args(line string) (all [][]byte) {
	for _, word := range strings.Fields(line) {
		all = append(all, []byte(word))
	}
	return all
}

// connect returns clients with the IDs from 1 on. The second is a subscriber, the third is another
// user's and ten seconds older, and the fourth has ended already.
func connect() []*fake {
	all := make([]*fake, 4)
	shared := make([]Client, len(all))
	for i := range all {
		all[i] = &fake{others: &shared, d: Description{
			ID: int64(i + 1), Addr: fmt.Sprintf("10.0.0.1:%d", i+1), LocalAddr: "10.0.0.9:6380", User: "default",
		}}
		shared[i] = all[i]
	}
	all[1].d.SSub = 1
	all[2].d.User, all[2].d.Age = "ann", 10*time.Second
	all[3].ended = true
	return all
}

// TestKillFilter checks which clients each filter of CLIENT KILL ends, and when it ends the client
// that asks, which is the first.
func TestKillFilter(t *testing.T) {
	for _, tc := range []struct {
		line   string
		killed []int64
		itself bool
	}{
		{"CLIENT KILL 10.0.0.1:3", []int64{3}, false},
		{"CLIENT KILL 10.0.0.1:1", nil, true},
		{"CLIENT KILL ID 2", []int64{2}, false},
		{"CLIENT KILL ID 1", nil, false},
		{"CLIENT KILL ID 1 SKIPME no", nil, true},
		{"CLIENT KILL ID 4", nil, false},
		{"CLIENT KILL SKIPME YES", []int64{2, 3}, false},
		{"CLIENT KILL TYPE pubsub", []int64{2}, false},
		{"CLIENT KILL TYPE slave", nil, false},
		{"CLIENT KILL USER ann MAXAGE 10", []int64{3}, false},
		{"CLIENT KILL USER ann MAXAGE 11", nil, false},
		{"CLIENT KILL LADDR 10.0.0.9:6380 SKIPME no", []int64{2, 3}, true},
		{"CLIENT KILL ADDR 10.0.0.1:2 USER ann", nil, false},
	} {
		f, problem := parseKillFilter(args(tc.line))
		if problem != "" {
			t.Errorf("%s: %s", tc.line, problem)
			continue
		}
		all := connect()
		n, itself := Caller{Session: all[0]}.killAll(f)
		var killed []int64
		for _, one := range all[:3] {
			if one.ended {
				killed = append(killed, one.d.ID)
			}
		}
		want := len(tc.killed)
		if tc.itself {
			want++
		}
		if !slices.Equal(killed, tc.killed) || itself != tc.itself || n != want {
			t.Errorf("%s: killed %v, itself %v, counted %d; want %v, %v, %d", tc.line, killed, itself, n, tc.killed,
				tc.itself, want)
		}
	}
}

// TestFilterProblems checks Redis's errors for filters that are wrong.
func TestFilterProblems(t *testing.T) {
	for line, want := range map[string]string{
		"CLIENT KILL ID 0":             msgKillID,
		"CLIENT KILL ID x":             msgKillID,
		"CLIENT KILL TYPE nobody":      "ERR Unknown client type 'nobody'",
		"CLIENT KILL MAXAGE old":       msgMaxAge,
		"CLIENT KILL ID 1 SKIPME":      "ERR syntax error",
		"CLIENT KILL SKIPME perhaps":   "ERR syntax error",
		"CLIENT KILL NAME x":           "ERR syntax error",
		"CLIENT LIST TYPE nobody":      "ERR Unknown client type 'nobody'",
		"CLIENT LIST ID 1 x":           msgClientID,
		"CLIENT LIST ID":               "ERR syntax error",
		"CLIENT LIST TYPE normal more": "ERR syntax error",
	} {
		words := args(line)
		_, got := parseListFilter(words)
		if string(words[1]) == "KILL" {
			_, got = parseKillFilter(words)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestListFilter checks which clients CLIENT LIST shows.
func TestListFilter(t *testing.T) {
	for line, want := range map[string][]int64{
		"CLIENT LIST":              {1, 2, 3, 4},
		"CLIENT LIST ID 4 9 1":     {1, 4},
		"CLIENT LIST TYPE normal":  {1, 3, 4},
		"CLIENT LIST TYPE PubSub":  {2},
		"CLIENT LIST TYPE master":  nil,
		"CLIENT LIST TYPE replica": nil,
	} {
		wanted, problem := parseListFilter(args(line))
		if problem != "" {
			t.Errorf("%s: %s", line, problem)
			continue
		}
		var got []int64
		for _, one := range connect() {
			if wanted(&one.d) {
				got = append(got, one.d.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// TestDescription checks a line of CLIENT LIST, and its letters.
func TestDescription(t *testing.T) {
	d := Description{
		ID: 7, Addr: "10.0.0.1:1", LocalAddr: "10.0.0.9:6380", Descriptor: 12,
		Labels: Labels{Name: "n", LibName: "l", LibVersion: "v"}, Age: 2500 * time.Millisecond, Idle: time.Second,
		DB: 3, Sub: 1, PSub: 2, SSub: 4, Multi: -1, Requests: 10, Output: 20, User: "ann", Command: "get", Protocol: 3,
		Tracking: tracking.View{Redirect: -1},
	}
	var b bytes.Buffer
	d.writeTo(&b)
	const want = "id=7 addr=10.0.0.1:1 laddr=10.0.0.9:6380 fd=12 name=n age=2 idle=1 flags=P db=3 sub=1 psub=2 ssub=4 " +
		"multi=-1 qbuf=10 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=20 tot-mem=30 events=r " +
		"cmd=get user=ann redir=-1 resp=3 lib-name=l lib-ver=v\n"
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := (&Description{Multi: -1}).Flags(); got != "N" {
		t.Errorf("flags of an ordinary client: %s", got)
	}
	all := Description{
		Monitoring: true, Sub: 1, Blocked: true, Unix: true, NoEvict: true,
		Tracking: tracking.View{On: true, Broken: true, Broadcast: true},
	}
	if got := all.Flags(); got != "OPxbtRBUe" {
		t.Errorf("flags with everything: %s", got)
	}
}

// TestPauses checks which commands a pause delays, how two pauses combine, and how one ends.
func TestPauses(t *testing.T) {
	var p Pauses
	if p.Any() || p.Delaying(true) != nil {
		t.Fatal("a pause without CLIENT PAUSE")
	}
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	p.extend(false, later)
	first := p.Delaying(true)
	if !p.Any() || first == nil || p.Delaying(false) != nil {
		t.Fatal("PAUSE WRITE does not delay exactly writes")
	}
	p.extend(true, soon)
	select {
	case <-first.Changed:
	default:
		t.Error("who waits for the first pause does not see the second")
	}
	both := p.Delaying(false)
	if both == nil || !both.Until.Equal(later) {
		t.Fatalf("two pauses do not delay all until the later time: %+v", both)
	}
	p.end(first)
	if p.Delaying(false) != both {
		t.Error("the end of a pause that was replaced ends the new one")
	}
	p.end(nil)
	if p.Any() {
		t.Error("UNPAUSE does not end the pause")
	}
	p.extend(true, time.Now().Add(-time.Second))
	if p.Delaying(true) != nil || p.Any() {
		t.Error("a pause delays commands after its end")
	}
}
