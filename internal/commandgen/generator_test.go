package commandgen

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"leash/internal/redistest"
)

func learn(t *testing.T) *Grammar {
	t.Helper()
	g, err := Learn(t.Context(), redistest.Start(t).Client())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestEveryCommandIsMade: every name of the grammar is made. The same seed makes the same commands.
func TestEveryCommandIsMade(t *testing.T) {
	grammar := learn(t)
	one := grammar.New(rand.New(rand.NewPCG(1, 2)), Options{Databases: 2, Transactions: true})
	two := grammar.New(rand.New(rand.NewPCG(1, 2)), Options{Databases: 2, Transactions: true})
	made := map[string]int{}
	for range 60_000 {
		args := one.Next()
		if again := two.Next(); !slices.Equal(args, again) {
			t.Fatalf("the same seed made %.100q, then %.100q", args, again)
		}
		made[strings.ToUpper(args[0])]++
		if len(args) > 1 {
			made[strings.ToUpper(args[0]+"|"+args[1])]++
		}
	}
	names := grammar.Commands()
	if len(names) < 190 {
		t.Errorf("the grammar has %d data commands", len(names))
	}
	for _, name := range append(names, "MULTI", "EXEC", "WATCH", "SELECT", "SWAPDB", "FLUSHALL", "PING") {
		if made[name] == 0 {
			t.Errorf("%s was never made", name)
		}
	}
	for name := range LeftOut {
		if made[name] > 0 {
			t.Errorf("%s was made", name)
		}
	}
}

// TestBlocksForAMoment checks that no stream command waits longer than 1 ms, however it is damaged.
func TestBlocksForAMoment(t *testing.T) {
	g := learn(t).New(rand.New(rand.NewPCG(3, 4)), Options{})
	seen := 0
	for range 100_000 {
		args := g.Next()
		at := slices.IndexFunc(args, func(arg string) bool { return strings.EqualFold(arg, "BLOCK") })
		if at < 0 || !strings.HasPrefix(strings.ToUpper(args[0]), "XREAD") {
			continue
		}
		if seen++; at+1 == len(args) || args[at+1] != "1" {
			t.Fatalf("%.200q", args)
		}
	}
	if seen < 100 {
		t.Errorf("%d commands with BLOCK", seen)
	}
}

// TestOneSlot: no command and no transaction has keys with two hash tags, except the commands that
// Leash splits.
func TestOneSlot(t *testing.T) {
	g := learn(t).New(rand.New(rand.NewPCG(1, 2)), Options{Keys: OneSlot, Transactions: true})
	spread := 0
	for range 30_000 {
		args := g.Next()
		tagged := map[string]bool{}
		for _, arg := range args[1:] {
			if len(arg) >= 5 && arg[0] == '{' && arg[2] == '}' && strings.ContainsRune(kinds, rune(arg[3])) {
				tagged[arg[:3]] = true
			}
		}
		if len(tagged) < 2 {
			continue
		}
		if !split[strings.ToUpper(args[0])] {
			t.Fatalf("%.200q has keys of several slots", args)
		}
		spread++
	}
	if spread == 0 {
		t.Error("no split command had keys of several slots")
	}
}

// TestSortBySorts: SORT always has a "*" in its BY. Without one it does not sort, and each server
// has its own order of a set.
func TestSortBySorts(t *testing.T) {
	g := learn(t).New(rand.New(rand.NewPCG(1, 2)), Options{Keys: AnySlots})
	seen := 0
	for range 200_000 {
		args := g.Next()
		if !strings.HasPrefix(strings.ToUpper(args[0]), "SORT") {
			continue
		}
		i := slices.Index(args, "BY")
		if i < 0 {
			continue
		}
		seen++
		if i+1 == len(args) || !strings.Contains(args[i+1], "*") {
			t.Fatalf("%.200q", args)
		}
	}
	if seen < 100 {
		t.Errorf("%d commands with BY", seen)
	}
}
