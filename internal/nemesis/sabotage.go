package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sabotage is a Leash that is deliberately broken: the check must find it out.
type sabotage struct {
	name   string
	edits  []edit
	kinds  []string      // of locks that it shows in
	faults []string      // and what makes it show
	length time.Duration // of a trial; 0 for sabotageLength
	caught []string      // what the check says, one of these
}

// edit is what is broken in a file.
type edit struct {
	file string // of lockcmd
	from string // the code that is replaced, which must be there once; "" for all of it
	to   string // by this
}

// sabotages are the mistakes that those make who write such locks for the first time.
var sabotages = []sabotage{
	{
		name:  "owner", // never mind who holds it
		edits: []edit{{"scripts/acquire.lua", "local free = left == -2 or orphan", "local free = true"}},
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		name: "release", // whoever holds it: a copy that comes late or twice ends another's hold
		edits: []edit{{
			"scripts/release.lua", "if not h[1] or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end",
			"if not h[2] then return -1 end h[1] = h[1] or '1'",
		}},
		kinds: []string{"lock"}, faults: []string{"replies of scripts lost", "scripts late"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		// renews what is not there any more: a renewal that comes late brings a released lock back
		name: "renew",
		edits: []edit{{file: "scripts/renew.lua", to: `local out = {}
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
		name:  "writer", // is let in beside readers
		edits: []edit{{"scripts/rw_acquire.lua", "if writing > 0 or MINE == 'write' and most > 0 then", "if writing > 0 then"}},
		kinds: []string{"rw"}, faults: []string{"network: slow"}, caught: []string{"is no read-write lock", "was certain for"},
	},
	{
		name:  "permits", // two more than there are
		edits: []edit{{"scripts/permit_acquire.lua", "if have < #missing then", "if have + 2 < #missing then"}},
		kinds: []string{"sem"}, faults: []string{"network: slow"}, caught: []string{"is no semaphore"},
	},
	{
		name: "token", // the same one, as long as the clock's second is
		edits: []edit{{
			"scripts/prelude.lua", "tonumber(now[1]) * 1000000 + tonumber(now[2]))", "0) * 0 + tonumber(now[1]) * 1000000",
		}},
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no fencing tokens"},
	},
	{
		name:  "again", // sends once more what was not answered, though that counts twice
		edits: []edit{{"script_call.go", "			if call.runsOnce {", "			if s == nil {"}},
		kinds: []string{"count"}, faults: []string{"replies of scripts lost"}, caught: []string{"is no counter"},
	},
	{
		name:  "latch", // opens before its time
		edits: []edit{{"latch.go", "	case n > 0:", "	case n > 1:"}},
		kinds: []string{"latch"}, faults: []string{"network: slow"}, caught: []string{"is no latch"},
	},
	{
		name: "waiter", // tells the waiters of other Leashes nothing, and lets nobody look again
		edits: []edit{
			{"scripts/prelude.lua", "local function publish(channel, mode, word)", "local function publish(channel, mode, word) mode = ''"},
			{"acquire.go", "	return pause\n}", "	return time.Hour\n}"},
		},
		kinds: []string{"lock"}, faults: []string{"none"}, length: 20 * time.Second, caught: []string{"while somebody waits", "was not answered for"},
	},
}

func sabotageNames() (names []string) {
	for _, s := range sabotages {
		names = append(names, s.name)
	}
	return names
}

// sabotageNamed is the one of that name.
func sabotageNamed(name string) (*sabotage, error) {
	i := slices.IndexFunc(sabotages, func(s sabotage) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no sabotage %q", name)
	}
	return &sabotages[i], nil
}

// overlay writes what go build's flag -overlay wants: Leash with the broken files instead of its
// own. It is "" for no sabotage.
func (s *sabotage) overlay(ctx context.Context, dir string) (path string, err error) {
	if s == nil {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "leash/lockcmd").Output()
	if err != nil {
		return "", fmt.Errorf("find lockcmd: %w", err)
	}
	texts := make(map[string]string) // by file
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

// apply breaks the text of the file.
func (e edit) apply(text string) (string, error) {
	if e.from == "" {
		return e.to, nil
	}
	if strings.Count(text, e.from) != 1 {
		return "", fmt.Errorf("%s has not %q once", e.file, e.from)
	}
	return strings.Replace(text, e.from, e.to, 1), nil
}
