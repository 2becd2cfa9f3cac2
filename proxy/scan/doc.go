// Package scan is SCAN over the masters of a cluster, and LOCK.LIST, which is a SCAN for locks.
//
// A cursor says everything about a scan (cursor.go), so any Leash can continue it. An order says
// which master comes next (order.go). Slots that move during a scan cost a second pass (scan.go).
package scan
