package lockcmd

import (
	"sync"
	"time"

	"leash/internal/guard"
)

// parallelWorkers is how many keys of one command are attempted at the same time.
const parallelWorkers = 64

// parallelAttempt is one attempt at several keys at the same time. A worker that comes after its
// end releases what it got.
type parallelAttempt struct {
	multi   *multiAcquisition
	until   time.Time
	todo    chan int       // indexes of the keys to attempt
	results chan keyResult // one for each key

	mu   sync.Mutex
	over bool
}

// attemptMissing attempts all keys that are not in hand, and collects the grants. It returns the
// result of each key. Once enough keys are in hand, it waits only quorumSlack for the others.
func (ma *multiAcquisition) attemptMissing(enough int, until time.Time) []keyResult {
	inHand := 0
	var missing []int
	for i, h := range ma.holds {
		if h == nil {
			missing = append(missing, i)
		} else {
			inHand++
		}
	}
	p := &parallelAttempt{multi: ma, until: until, todo: make(chan int, len(missing)),
		results: make(chan keyResult, len(missing))}
	for _, i := range missing {
		p.todo <- i
	}
	close(p.todo)
	for range min(len(missing), parallelWorkers) {
		if !ma.carrier.service.spawn(p.work) {
			p.refuse() // the Service has ended
		}
	}
	var results []keyResult
	slackOver := make(<-chan time.Time) // never
	for len(results) < len(missing) {
		select {
		case kr := <-p.results:
			results = append(results, kr)
			ma.keepResult(kr)
			if kr.hold == nil {
				continue
			}
			if inHand++; inHand == enough {
				slackOver = time.After(quorumSlack)
			}
		case <-slackOver:
			return append(results, p.finish()...)
		}
	}
	return results
}

// work attempts one key after the other.
func (p *parallelAttempt) work() {
	ma := p.multi
	for i := range p.todo {
		// in case the attempt panics
		kr := keyResult{index: i, result: result{kind: unknown, text: msgRefused}}
		_ = guard.Do(ma.carrier.service.log, "look at a key", func() { kr = p.attemptKey(i) })
		if p.report(kr) {
			continue
		}
		if kr.hold != nil {
			ma.carrier.service.putBack(kr.hold, ma.keys[i].id)
		}
		return
	}
}

// attemptKey attempts one key.
func (p *parallelAttempt) attemptKey(i int) keyResult {
	ma := p.multi
	a, res := ma.beginKey(i, p.until)
	if a == nil {
		return keyResult{index: i, result: res}
	}
	defer a.unlockOwn()
	return ma.concludeKey(i, a, res)
}

// refuse reports a refusal for the keys that nobody attempts.
func (p *parallelAttempt) refuse() {
	for i := range p.todo {
		p.report(keyResult{index: i, result: result{kind: unknown, text: msgRefused}})
	}
}

// report returns false when the attempt is over.
func (p *parallelAttempt) report(kr keyResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.results <- kr
	}
	return !p.over
}

// finish ends the attempt and returns the last results.
func (p *parallelAttempt) finish() (results []keyResult) {
	p.mu.Lock()
	p.over = true
	close(p.results)
	p.mu.Unlock()
	for kr := range p.results {
		p.multi.keepResult(kr)
		results = append(results, kr)
	}
	return results
}
