package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"leash/internal/histogram"
	"leash/proxy"
)

// Source is what the series are read from. Its functions may be called at any time, also at the
// same time, and must not wait for Redis.
type Source struct {
	Version string
	// Figures returns the figures of the server. Before there is a server, it returns false.
	Figures func() (proxy.Figures, bool)
	// Ready reports whether /readyz answers 200.
	Ready func() bool
	// Certificates return when each certificate ends; zero: it is not used. The keys are those of
	// certificateNames. One that is missing is not used.
	Certificates map[string]func() time.Time
	// AuditDropped returns how many lines the audit log has dropped.
	AuditDropped func() int64
}

// collector implements prometheus.Collector.
type collector struct {
	source Source
	descs  []*prometheus.Desc // of families, in their order
}

// New makes the collector of all series of Leash. It is safe for concurrent use.
func New(source Source) prometheus.Collector {
	c := &collector{source: source}
	for _, f := range families {
		var labels []string
		if f.label != "" {
			labels = append(labels, f.label)
		}
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, labels, f.constant(source)))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	v := c.read()
	for i, f := range families {
		desc := c.descs[i]
		if f.times != nil {
			out <- histogramOf(desc, f.times(v))
			continue
		}
		f.values(v, func(label string, value float64) {
			var labels []string
			if f.label != "" {
				labels = append(labels, label)
			}
			out <- prometheus.MustNewConstMetric(desc, f.kind, value, labels...)
		})
	}
}

// values are what one scrape shows.
type values struct {
	proxy.Figures
	ready        bool
	certificate  map[string]time.Time // by certificateNames
	auditDropped int64
}

func (c *collector) read() *values {
	v := &values{ready: c.source.Ready(), auditDropped: c.source.AuditDropped(), certificate: make(map[string]time.Time)}
	v.Figures, _ = c.source.Figures()
	for name, expiry := range c.source.Certificates {
		v.certificate[name] = expiry()
	}
	return v
}

// histogramOf converts a snapshot. Prometheus counts a duration in its bucket and in all larger
// ones.
func histogramOf(desc *prometheus.Desc, s histogram.Snapshot) prometheus.Metric {
	buckets := make(map[float64]uint64, len(histogram.Bounds))
	var total uint64
	for i, n := range s.Counts {
		total += n
		if i < len(histogram.Bounds) {
			buckets[histogram.Bounds[i].Seconds()] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, s.Sum.Seconds(), buckets)
}

// constant are the labels with fixed values. Only the build information has some.
func (f family) constant(source Source) prometheus.Labels {
	if f.name != buildInfo {
		return nil
	}
	return prometheus.Labels{"version": source.Version, "goversion": runtime.Version()}
}
