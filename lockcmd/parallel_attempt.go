package lockcmd

import (
	"sync"
	"time"

	"leash/internal/guard"
)

// parallelWorkers is how many keys of one command are looked at at once.
const parallelWorkers = 64

// parallelAttempt is one look at several keys at the same time. Who comes when it is over gives back what it
// got.
type parallelAttempt struct {
	multi   *multiAcquisition
	until   time.Time
	todo    chan int       // the wishes to look at
	results chan keyResult // one of each

	mu   sync.Mutex
	over bool
}

// attemptMissing looks at all the keys that are not in hand, and takes what it gets in hand. It returns what
// came of each, but does not wait for those that hang when as many as enough are in hand without
// them.
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
	p := &parallelAttempt{multi: ma, until: until, todo: make(chan int, len(missing)), results: make(chan keyResult, len(missing))}
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

// work looks at one key after the other.
func (p *parallelAttempt) work() {
	ma := p.multi
	for i := range p.todo {
		kr := keyResult{index: i, result: result{kind: unknown, text: msgRefused}} // if the look panics
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

// attemptKey looks at one key.
func (p *parallelAttempt) attemptKey(i int) keyResult {
	ma := p.multi
	a, res := ma.beginKey(i, p.until)
	if a == nil {
		return keyResult{index: i, result: res}
	}
	defer a.unlockOwn()
	return ma.concludeKey(i, a, res)
}

// refuse answers for what nobody looks at.
func (p *parallelAttempt) refuse() {
	for i := range p.todo {
		p.report(keyResult{index: i, result: result{kind: unknown, text: msgRefused}})
	}
}

// report fails when the round is over.
func (p *parallelAttempt) report(kr keyResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.results <- kr
	}
	return !p.over
}

// finish ends the round, and returns what has come in the last moment.
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
