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
)

// sabotage is a Leash with a script that is deliberately broken: the check must find it out.
type sabotage struct {
	name   string
	file   string   // of lockcmd/scripts
	from   string   // the code that is replaced, which must be there once; "" for all of it
	to     string   // by this
	kinds  []string // of locks that it shows in
	faults []string // and what makes it show
	caught []string // what the check says, one of these
}

// sabotages are the mistakes that those make who write such scripts for the first time.
var sabotages = []sabotage{
	{
		name: "owner", file: "acquire.lua", // never mind who holds it
		from:  "local free = left == -2 or orphan",
		to:    "local free = true",
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		name: "release", file: "release.lua", // whoever holds it: a copy that comes late or twice ends another's hold
		from:  "if not h[1] or r[TOKEN] ~= ARGV[2] or r[CARRIER] ~= ARGV[3] then return -1 end",
		to:    "if not h[2] then return -1 end h[1] = h[1] or '1'",
		kinds: []string{"lock"}, faults: []string{"replies of scripts lost", "scripts late"}, caught: []string{"is no mutex", "was certain for"},
	},
	{
		name: "renew", file: "renew.lua", // renews what is not there any more: a renewal that comes late brings a released lock back
		to: `local out = {}
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then redis.call('HSET', key, ARGV[2 * i], '1', 'leash', ARGV[2 * i + 1] .. '0 0 0 3000 w - - -') end
  redis.call('PEXPIRE', key, math.max(tonumber(ARGV[1]), 1000))
  out[i] = 1
end
return out
`,
		kinds: []string{"lock", "fair"}, faults: []string{"scripts"}, caught: []string{"was released before"},
	},
	{
		name: "permits", file: "permit_acquire.lua", // two more than there are
		from: "if have < #missing then", to: "if have + 2 < #missing then",
		kinds: []string{"sem"}, faults: []string{"network: slow"}, caught: []string{"is no semaphore"},
	},
	{
		name: "token", file: "prelude.lua", // the same one, as long as the clock's second is
		from: "tonumber(now[1]) * 1000000 + tonumber(now[2]))", to: "0) * 0 + tonumber(now[1]) * 1000000",
		kinds: []string{"lock"}, faults: []string{"network: slow"}, caught: []string{"is no fencing tokens"},
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

// overlay writes what go build's flag -overlay wants: Leash with the broken script instead of its own. It is "" for no sabotage.
func (s *sabotage) overlay(ctx context.Context, dir string) (path string, err error) {
	if s == nil {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "leash/lockcmd").Output()
	if err != nil {
		return "", fmt.Errorf("find the scripts: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "scripts", s.file)
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	broken, err := s.apply(string(text))
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, s.file)
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// apply breaks the text of the script.
func (s *sabotage) apply(text string) (string, error) {
	if s.from == "" {
		return s.to, nil
	}
	if strings.Count(text, s.from) != 1 {
		return "", fmt.Errorf("sabotage %s: %s has not %q once", s.name, s.file, s.from)
	}
	return strings.Replace(text, s.from, s.to, 1), nil
}
