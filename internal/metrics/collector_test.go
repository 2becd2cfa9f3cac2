package metrics

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"leash/internal/histogram"
	"leash/lockcmd/view"
	"leash/proxy"
)

// before is a Source of a Leash that has no server yet.
func before() Source {
	return Source{
		Version:      "test",
		Figures:      func() (proxy.Figures, bool) { return proxy.Figures{}, false },
		Ready:        func() bool { return false },
		AuditDropped: func() int64 { return 0 },
	}
}

// gather returns the values of all series, by "name" or "name{label}". A histogram has its count
// and its sum.
func gather(t *testing.T, source Source) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(source))
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range found {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "{" + l.GetValue() + "}"
			}
			switch {
			case m.Histogram != nil:
				all[name+"_count"] = float64(m.Histogram.GetSampleCount())
				all[name+"_sum"] = m.Histogram.GetSampleSum()
			case m.Counter != nil:
				all[name] = m.Counter.GetValue()
			default:
				all[name] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

// TestLint checks names, units and help texts as promtool does.
func TestLint(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(before()))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestEverySeriesExistsFromTheStart compares the series before there is a server with those of a
// server that has counted something everywhere.
func TestEverySeriesExistsFromTheStart(t *testing.T) {
	source := before()
	first := gather(t, source)
	f := proxy.Figures{Uptime: time.Second, Clients: 3, Locks: view.Stats{RenewalMargin: 20 * time.Second}}
	f.Disconnections = map[string]int64{"other": 1}
	f.Commands, f.Errors = map[string]int64{"relayed": 7}, map[string]int64{"relayed": 1}
	f.Locks.Losses = map[string]int64{"gone": 2}
	f.Locks.HoldTimes = histogram.Snapshot{Sum: 90 * time.Second}
	f.Locks.HoldTimes.Counts[len(histogram.Bounds)-2], f.Locks.HoldTimes.Counts[0] = 1, 4
	source.Figures = func() (proxy.Figures, bool) { return f, true }
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	source.Certificates = map[string]func() time.Time{"clients": func() time.Time { return end }}
	later := gather(t, source)
	if a, b := slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(later)); !slices.Equal(a, b) {
		t.Errorf("first\n%s\nlater\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for name, want := range map[string]float64{
		"leash_clients": 3, "leash_client_disconnections_total{other}": 1, "leash_commands_total{relayed}": 7,
		"leash_command_errors_total{relayed}": 1, "leash_lock_losses_total{gone}": 2,
		"leash_lock_losses_total{broken}": 0, "leash_lock_hold_seconds_count": 5, "leash_lock_hold_seconds_sum": 90,
		"leash_lock_renewal_margin_seconds":                   20,
		"leash_certificate_expiry_timestamp_seconds{clients}": float64(end.Unix()),
		"leash_certificate_expiry_timestamp_seconds{redis}":   math.Inf(1),
	} {
		if got, ok := later[name]; !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := first["leash_lock_renewal_margin_seconds"]; !math.IsInf(got, 1) {
		t.Errorf("the margin before the start: %v", got)
	}
}

// TestFewSeries checks the number of series, where each bucket of a histogram is one.
func TestFewSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(before()))
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range found {
		for _, m := range f.Metric {
			series++
			if m.Histogram != nil {
				series += len(m.Histogram.Bucket) + 2 // +Inf and the sum
			}
		}
	}
	if series >= 300 {
		t.Errorf("%d series, want fewer than 300", series)
	}
	t.Logf("%d series", series)
}
