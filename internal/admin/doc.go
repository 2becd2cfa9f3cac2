// Package admin is the HTTP port for operators: metrics, health checks and profiles.
//
//	/metrics       the series of Prometheus
//	/livez         200 while the process works; it asks nobody
//	/readyz        200 if clients can work, 503 otherwise
//	/debug/pprof/  profiles of Go, only with a token
//	/api/          what the console reads
//	/, /console/   the page of the console, which has no data of its own
//
// If there is a token, all but the health checks and the page want it as
// "Authorization: Bearer <token>". Orchestrators cannot send it with health checks. access.go says
// who may read and change what.
//
// A [Server] serves one listener. It limits the time of each request and the number of connections.
// When there are too many, the oldest connection without a running request makes room, so idle
// connections cannot keep a health check out.
package admin
