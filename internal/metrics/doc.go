// Package metrics shows the counters of a Leash to Prometheus.
//
// [New] makes the one collector. It reads the counters when Prometheus asks, so nothing is counted
// twice and a scrape costs what it costs to read them. families lists all series. Labels have
// closed sets of values: there is never the name of a lock, a client or a node. Every series exists
// from the start, and before Redis is connected as well.
//
// docs/metrics.md has the same list. A test compares the two.
package metrics
