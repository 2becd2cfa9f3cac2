package lockcmd

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// permit is the mode of permits of a semaphore, Redisson's RPermitExpirableSemaphore. The owner of
// such a hold is the permit itself. Its token tells it from another hold of the same permit. The
// token comes from this Leash and fences nothing. LOCK.ACQUIRE cannot ask for permits, so permit is
// not in modes.
var permit = &mode{
	id: 100, name: "permit", option: "PERMIT", shared: true, release: permitReleaseScript, move: permitMoveScript, renew: permitRenewScript, restore: permitRestoreScript,
	renewKey: permitRenewKeyScript, channel: permitChannel, helpers: func(key, _ string) []string { return semaphoreKeys(key)[1:] },
}

var (
	permitAcquireScript  = loadScript("permit_acquire", "permits", "master")
	permitReleaseScript  = loadScript("permit_release", "permits")
	permitRevokeScript   = loadScript("permit_revoke", "permits")
	permitUndoScript     = loadScript("permit_undo", "permits")
	permitRenewScript    = loadScript("permit_renew", "permits")
	permitRestoreScript  = loadScript("permit_restore", "permits", "master")
	permitRenewKeyScript = loadScript("permit_renew_key", "permits")
	permitMoveScript     = loadScript("permit_move", "permits", "set_carrier")
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
func isPermit(permitID string) func(*hold) bool {
	return func(h *hold) bool { return h.mode() == permit && (permitID == "" || h.isOf(permitID)) }
}
