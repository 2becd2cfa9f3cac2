package pubsub

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestMatchAsRedisDoes compares with KEYS, which has the same rules.
func TestMatchAsRedisDoes(t *testing.T) {
	redis := redistest.Start(t).Client()
	const alphabet = `ab]-^\`
	var keys []string
	for _, a := range alphabet {
		keys = append(keys, string(a))
		for _, b := range alphabet {
			keys = append(keys, string(a)+string(b))
			for _, c := range alphabet {
				keys = append(keys, string(a)+string(b)+string(c), "a"+string(a)+string(b)+string(c))
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, key := range keys {
		if err := redis.Set(t.Context(), key, "", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const forms = `aab]-^\**?[[`
	for range 3000 {
		pattern := ""
		for range 1 + random.IntN(7) {
			pattern += string(forms[random.IntN(len(forms))])
		}
		told, err := redis.Keys(t.Context(), pattern).Result()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(told)
		var got []string
		for _, key := range keys {
			if Match(pattern, key) {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, told) {
			t.Fatalf("%q (seed %d) matches\n%q, redis says\n%q", pattern, seed, got, told)
		}
	}
}

func TestMatchTakesNoLongerThanTheProduct(t *testing.T) {
	began := time.Now()
	if Match(strings.Repeat("a*", 1000)+"b", strings.Repeat("a", 20000)) {
		t.Error("matches")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPatternsThatBringKeyspaceEvents(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*": true, "_*": true, "__key*": true, "__keyevent@0__:*": true, "__k?y*": true, "[_]_key*": true,
		`\__key*`: true, "__*": true, "?*": true,
		"__key": true, "": false, "a*": false, "__kex*": false, "__": false, "[a-z]*": false, "__ke": false,
		"???": false,
	} {
		if got := bringsKeyspace(Pattern, pattern); got != want {
			t.Errorf("%q: got %v", pattern, got)
		}
	}
	if !bringsKeyspace(Channel, "__keyspace@0__:k") || bringsKeyspace(Channel, "news") ||
		bringsKeyspace(Shard, "__keyspace@0__:k") {
		t.Error("channels are judged wrongly")
	}
}
