package renewal

import "time"

// marginWindow is for how long a margin counts at least. It counts twice as long at most.
const marginWindow = 30 * time.Second

// margins keeps the least time that a hold had left when its renewal was answered, or was given up.
// The zero value has none.
type margins struct {
	began          moment // of the present window
	present, last  time.Duration
	inPresent, old bool // whether present and last have a value
}

// note adds a margin.
func (m *margins) note(now moment, left time.Duration) {
	m.turn(now)
	if !m.inPresent || left < m.present {
		m.present, m.inPresent = left, true
	}
}

// turn begins a new window if the present one is over.
func (m *margins) turn(now moment) {
	passed := now - m.began
	if passed < marginWindow {
		return
	}
	m.last, m.old = m.present, m.inPresent && passed < 2*marginWindow
	m.began, m.inPresent = now, false
}

// Margin returns the least time that a hold had left when its renewal was answered or given up,
// among the renewals of the last 30 to 60 s. A renewal comes after a third of the TTL, so the
// margin is usually near two thirds. It is negative if there was no renewal. Leases are left out,
// because nobody renews them.
func (w *Watchdog) Margin() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &w.margins
	m.turn(w.now())
	switch {
	case m.inPresent && m.old:
		return min(m.present, m.last)
	case m.inPresent:
		return m.present
	case m.old:
		return m.last
	}
	return -1
}
