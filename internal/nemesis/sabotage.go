package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sabotage is a Leash with a deliberate bug. The check must find the bug.
type sabotage struct {
	name   string
	edits  []edit
	kinds  []string      // the kinds of locks that show the bug
	faults []string      // the faults that make the bug visible
	length time.Duration // the length of a trial; 0 for sabotageLength
	caught []string      // the check must report one of these
}

// edit replaces code in a file.
type edit struct {
	file string // a file in lockcmd
	from string // the code to replace, which must occur once; "" for the whole file
	to   string // the new code
}

// sabotages are mistakes that are easy to make in the first version of such a lock.
var sabotages = []sabotage{
	{
		name:  "owner", // a lock is granted although another owner holds it
		edits: []edit{{"script/lua/acquire.lua", "local free = left == -2 or orphan", "local free = true"}},
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		// The script does not check the holder: a late or repeated release ends another client's
		// hold.
		name: "release",
		edits: []edit{{
			"script/lua/release_alone.lua", "if not h[1] or token ~= ARGV[2] or carrier ~= ARGV[3] then return -1 end",
			"if not h[2] then return -1 end h[1] = h[1] or '1'",
		}},
		kinds: []string{"lock"}, faults: []string{"replies of scripts lost", "scripts late"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		// The script renews a lock that does not exist: a late renewal brings a released lock back.
		name: "renew",
		edits: []edit{{file: "script/lua/renew.lua", to: `local out = {}
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then redis.call('HSET', key, ARGV[2 * i], '1', 'leash', ARGV[2 * i + 1] .. '0 0 0 3000 w - - -') end
  redis.call('PEXPIRE', key, math.max(tonumber(ARGV[1]), 1000))
  out[i] = 1
end
return out
`}},
		kinds: []string{"lock", "fair"}, faults: []string{"scripts"}, caught: []string{"was released before"},
	},
	{
		name:  "writer", // a writer is granted the lock beside readers
		edits: []edit{{"script/lua/rw_pass_others.lua", "if writing > 0 or MINE == 'write' and most > 0 then", "if writing > 0 then"}},
		kinds: []string{"rw"}, faults: []string{"network: slow"}, caught: []string{"is no read-write lock", "was certain for"},
	},
	{
		name: "permits", // two more permits are granted than there are
		edits: []edit{
			{"script/lua/permit_acquire.lua", "if have < #missing then", "if have + 2 < #missing then"},
			{"script/lua/permit_handover.lua", "or left < 0 or", "or left < -2 or"},
		},
		kinds: []string{"sem"}, faults: []string{"network: slow"}, caught: []string{"is no semaphore"},
	},
	{
		name: "token", // the token stays the same for one second of the clock
		edits: []edit{{
			"script/lua/prelude.lua", "local clock, token, least = text, tonumber(text), (tonumber(last or 0) or 0) + 1",
			"text = now[1] .. '000000' local clock, token, least = text, tonumber(text), 0",
		}},
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no fencing tokens"},
	},
	{
		// A command without a reply is sent again, although it then counts twice.
		name:  "again",
		edits: []edit{{"script/transport/call.go", "		if call.RunsOnce {", "		if c == nil {"}},
		kinds: []string{"count"}, faults: []string{"replies of scripts lost"}, caught: []string{"is no counter"},
	},
	{
		name:  "latch", // the latch opens with one count left
		edits: []edit{{"counter.go", "	case n > 0:", "	case n > 1:"}},
		kinds: []string{"latch"}, faults: []string{"network: slow"}, caught: []string{"is no latch"},
	},
	{
		// The waiters of other Leashes are not notified, and no waiter tries again.
		name: "waiter",
		edits: []edit{
			{"script/lua/prelude.lua", "local function publish(channel, mode, word)", "local function publish(channel, mode, word) mode = ''"},
			{"script/lua/turns.lua", "nameOf(list[1]), event)\n  return ms", "nameOf(list[1]), '')\n  return ms"},
			{"wait/machine.go", "	return pause\n}", "	return time.Hour\n}"},
		},
		kinds: []string{"lock"}, faults: []string{"none"}, length: 20 * time.Second, caught: []string{"while a client waits", "was not answered for"},
	},
}

func sabotageNames() (names []string) {
	for _, s := range sabotages {
		names = append(names, s.name)
	}
	return names
}

// sabotageNamed returns the sabotage with this name.
func sabotageNamed(name string) (*sabotage, error) {
	i := slices.IndexFunc(sabotages, func(s sabotage) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no sabotage %q", name)
	}
	return &sabotages[i], nil
}

// overlay writes the changed files, and the file that go build's flag -overlay needs. It returns ""
// for no sabotage.
func (s *sabotage) overlay(ctx context.Context, dir string) (path string, err error) {
	if s == nil {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "leash/lockcmd").Output()
	if err != nil {
		return "", fmt.Errorf("find lockcmd: %w", err)
	}
	texts := make(map[string]string) // the text of each file
	for _, e := range s.edits {
		original := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(e.file))
		text, ok := texts[original]
		if !ok {
			read, err := os.ReadFile(original)
			if err != nil {
				return "", err
			}
			text = string(read)
		}
		if texts[original], err = e.apply(text); err != nil {
			return "", fmt.Errorf("sabotage %s: %w", s.name, err)
		}
	}
	replace := make(map[string]string)
	for original, text := range texts {
		replace[original] = filepath.Join(dir, filepath.Base(original))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// apply returns the text with the edit made.
func (e edit) apply(text string) (string, error) {
	if e.from == "" {
		return e.to, nil
	}
	if strings.Count(text, e.from) != 1 {
		return "", fmt.Errorf("%s has not %q once", e.file, e.from)
	}
	return strings.Replace(text, e.from, e.to, 1), nil
}

// checkSabotage runs Leash with scripts or code broken on purpose. It returns an error when the
// check does not find that.
func checkSabotage(ctx context.Context, opt options, log *slog.Logger, out io.Writer) error {
	names := opt.sabotage
	if names[0] == "all" {
		names = sabotageNames()
	}
	for _, name := range names {
		s, err := sabotageNamed(name)
		if err != nil {
			return err
		}
		if err := s.find(ctx, opt, log, out); err != nil {
			return err
		}
	}
	return nil
}

const (
	sabotageLength = 6 * time.Second // of one trial
	sabotageTrials = 30              // two or three are usually enough
)

// find runs trials of the sabotage until the check of one trial finds it.
func (s *sabotage) find(ctx context.Context, opt options, log *slog.Logger, out io.Writer) error {
	opt.length, opt.kinds, opt.faults = cmp.Or(s.length, sabotageLength), s.kinds, s.faults
	b, err := setUp(ctx, opt, s, log)
	if err != nil {
		return err
	}
	defer b.close()
	for try := range sabotageTrials {
		opt.seed++
		verdict := trial(ctx, opt, b, b.awaitExpiry, log, io.Discard)
		if s.catches(verdict) {
			fmt.Fprintf(out, "sabotage %s: caught in trial %d\n", s.name, try+1)
			log.Debug("caught", "by", verdict)
			return nil
		}
		log.Debug("not caught yet", "verdict", verdict)
	}
	return fmt.Errorf("sabotage %s: not caught in %d trials", s.name, sabotageTrials)
}

// catches reports whether a verdict is about this sabotage.
func (s *sabotage) catches(verdict error) bool {
	return verdict != nil && slices.ContainsFunc(s.caught, func(text string) bool { return strings.Contains(verdict.Error(), text) })
}
