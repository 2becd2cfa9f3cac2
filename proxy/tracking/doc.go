// Package tracking is client-side caching, CLIENT TRACKING, of one session
// (https://redis.io/docs/latest/develop/reference/client-side-caching/).
//
// Redis remembers for each connection which keys were read on it. So while tracking is on, the
// session's commands use connections of its own, one for each node (links.go).
//
// A client that gets an invalidation before an older reply would keep the stale value in that
// reply. So Leash passes an invalidation on after the replies that the same connection sent before
// it. Replies from elsewhere wait for the invalidations of all connections (order.go).
//
// When such a connection ends, Leash may miss invalidations. Leash then tells the client that all
// its cached values are invalid.
//
// Each session has a Client. Another session may redirect its invalidations to it (redirect.go).
// The package knows its session only by the interface Session.
package tracking
