package pubsub

import (
	"context"
	"errors"
	"slices"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// ErrUnreachable means that no node could be asked for a subscription in time.
var ErrUnreachable = errors.New("pubsub: redis cannot be reached")

// slotUnserved is Redis's error for a slot that no node has.
const slotUnserved = "-CLUSTERDOWN Hash slot not served\r\n"

// ask asks Redis for subscriptions and waits until Redis confirms or refuses them. A refusal is
// Redis's error reply. ask follows slots that move. It tries again within the redirect time-out,
// counted from the first failure. The hub must keep entries for the names until ask returns.
func (h *hub) ask(ctx context.Context, kind Kind, names []string) (refusal []byte, err error) {
	x := h.x
	var limit time.Time
	for pause := minBackoff; ; pause = min(2*pause, retryEvery) {
		x.mu.Lock()
		requests := h.askLocked(kind, names)
		x.mu.Unlock()
		var failed *request
		if failed, err = await(ctx, requests); err != nil {
			return nil, err
		}
		if limit.IsZero() {
			limit = time.Now().Add(x.up.RedirectTimeout())
		}
		switch {
		case len(requests) == 0:
			refusal = nil
		case failed == nil:
			return nil, nil
		case errors.Is(failed.lost, dial.ErrRefused):
			return nil, failed.lost
		case failed.lost != nil:
			refusal = nil
		case h.follow(failed) && time.Now().Before(limit):
			continue
		case !slots.IsRefusal(failed.refusal):
			return failed.refusal, nil
		default:
			refusal = failed.refusal
			x.up.Refresh()
		}
		switch {
		case time.Now().Before(limit):
		case refusal != nil && refusal[1] == 'C': // clients get only CLUSTERDOWN, and no redirects
			return refusal, nil
		case kind == Shard && x.up.Topology().Node(slots.Of([]byte(names[0]))) == nil:
			return []byte(slotUnserved), nil
		default:
			return nil, ErrUnreachable
		}
		if links.Pause(ctx, pause); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// askLocked sends the command to every node that needs it. It sends none when one of them cannot be
// asked now.
func (h *hub) askLocked(kind Kind, names []string) (requests []*request) {
	h.adoptLocked(h.x.up.Topology())
	joining := make(map[*line][]string)
	for _, name := range names {
		placed := name
		if kind == Shard {
			placed = names[0] // Redis refuses names of several slots
		}
		lines, complete := h.targetsLocked(kind, placed)
		if !complete {
			return nil
		}
		for _, l := range lines {
			joining[l] = append(joining[l], name)
		}
	}
	for l, names := range joining {
		requests = append(requests, l.joinLocked(kind, names, nil))
	}
	return requests
}

// await waits for all requests and returns one that failed, or nil.
func await(ctx context.Context, requests []*request) (failed *request, err error) {
	for _, r := range requests {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.lost != nil || r.refusal != nil {
			failed = r
		}
	}
	return failed, nil
}

// follow follows a redirect that answered a request. It returns false if the answer is not a
// redirect.
func (h *hub) follow(r *request) bool {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	return h.followLocked(r)
}

func (h *hub) followLocked(r *request) bool {
	moved, ok := slots.ParseRedirect(r.refusal)
	if !ok || moved.Ask {
		return false
	}
	up := h.x.up
	n := up.Target(moved.Addr, r.line.node, true)
	up.Refresh()
	if n == nil || n == r.line.node {
		return false
	}
	up.Moved(moved.Slot, n)
	h.adoptLocked(up.Topology())
	return true
}

// isLasting reports whether Redis will not accept a former subscription again, because the user has
// lost the right to it.
func isLasting(refusal []byte) bool {
	return slices.Contains([]string{"NOPERM", "NOAUTH", "ERR"}, string(resp.Code(refusal)))
}
