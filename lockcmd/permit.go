package lockcmd

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

const permitSize = 16 // bytes

// newPermits returns n permits: those that belong to an ID, always the same, or new ones.
func newPermits(key, id string, n int64) []string {
	permits := make([]string, n)
	for i := range permits {
		var raw [permitSize]byte
		if id == "" {
			rand.Read(raw[:]) // never fails
		} else {
			sum := sha256.Sum256([]byte(key + "\x00" + id + "\x00" + strconv.Itoa(i)))
			copy(raw[:], sum[:])
		}
		permits[i] = hex.EncodeToString(raw[:])
	}
	return permits
}

// parsePermit reads a permit.
func parsePermit(b []byte) (permit string, ok bool) {
	raw, err := hex.DecodeString(string(b[:min(len(b), 2*permitSize+1)]))
	if err != nil || len(raw) != permitSize {
		return "", false
	}
	return hex.EncodeToString(raw), true
}

// isPermit matches the hold of one permit, or of any if permitID is "".
func isPermit(permitID string) func(*hold.Hold) bool {
	return func(h *hold.Hold) bool { return h.Mode() == script.Permit && (permitID == "" || h.IsOf(permitID)) }
}
