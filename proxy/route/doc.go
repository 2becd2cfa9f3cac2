// Package route decides where the commands of a session go: to which node, and on which link.
//
// A [Router] knows the topology that its session uses, and the session's lane. It sends a command
// to the node of its key, to any node, to all masters, or to several nodes that get a share each.
// Package call then has the calls in flight and their replies.
//
// All commands of a session that are in flight use the same topology and, for one node, the same
// link. Before one of them changes, the router waits until no call is in flight (see
// [Router.Barrier]). So the commands of a session on one key keep their order.
//
// The methods are for the goroutine of the session's loop, unless their comment says otherwise.
// Those that return false have met the end of the session.
package route
