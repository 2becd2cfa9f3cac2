package proxytest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of the run or of LEASH_SEED.
func Seed(t *testing.T) uint64 {
	s := uint64(time.Now().UnixNano())
	if env := os.Getenv("LEASH_SEED"); env != "" {
		var err error
		if s, err = strconv.ParseUint(env, 10, 64); err != nil {
			t.Fatalf("LEASH_SEED: %v", err)
		}
	}
	t.Logf("LEASH_SEED=%d", s)
	return s
}
