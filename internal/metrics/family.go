package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"leash/internal/histogram"
)

// family is one name with its series. Either values or times is set.
type family struct {
	name, help string
	kind       prometheus.ValueType
	label      string // "" for a single series
	// values gives each series to add, with the value of the label
	values func(v *values, add func(label string, value float64))
	times  func(v *values) histogram.Snapshot
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// buildInfo is the name of the series with the version.
const buildInfo = "leash_build_info"

// certificateNames are the values of the label certificate.
var certificateNames = []string{"admin", "clients", "redis"}

// single makes a family of one series.
func single[N int | int64 | float64](kind prometheus.ValueType, name, help string, read func(*values) N) family {
	return family{name: name, help: help, kind: kind, values: func(v *values, add func(string, float64)) {
		add("", float64(read(v)))
	}}
}

// seconds makes a family of one series from a duration.
func seconds(name, help string, read func(*values) time.Duration) family {
	return single(gauge, name, help, func(v *values) float64 { return read(v).Seconds() })
}

// labelled makes a family with a series for each key. A key that read does not give has the value
// 0.
func labelled(kind prometheus.ValueType, name, help, label string, keys []string, read func(*values) map[string]int64) family {
	return family{name: name, help: help, kind: kind, label: label,
		values: func(v *values, add func(string, float64)) {
			counts := read(v)
			for _, key := range keys {
				add(key, float64(counts[key]))
			}
		}}
}

// times makes a histogram.
func times(name, help string, read func(*values) histogram.Snapshot) family {
	return family{name: name, help: help, times: read}
}

// oneIf is 1 if the condition is true, and 0 otherwise.
func oneIf(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

// margin is the time that renewals leave. Without holds it is infinite, so that an alert on small
// values needs no other condition.
func margin(v *values) float64 {
	if v.Uptime == 0 || v.Locks.RenewalMargin < 0 {
		return math.Inf(1)
	}
	return v.Locks.RenewalMargin.Seconds()
}

// expiries gives the end of each certificate. One that is not used never ends.
func expiries(v *values, add func(string, float64)) {
	for _, name := range certificateNames {
		end := math.Inf(1)
		if at := v.certificate[name]; !at.IsZero() {
			end = float64(at.UnixMilli()) / 1000
		}
		add(name, end)
	}
}
