// Package call has the commands of a session that are in flight, and their replies.
//
// A [Queue] has the calls of one session in the order of the commands. It gives the client each
// reply in that order. A [Call] has one [Part], or one for each node or slot that gets a share of
// it. A part is a request to a node on a link (links.Request). It follows redirects, and it decides
// what may be sent again: transition.go has all states of a part and all changes between them. When
// all parts of a call have their replies, package merge makes one reply of them.
//
// The session decides where a part goes first. It implements [Session] for what the calls need of
// it. The mutex of the session guards a queue and its calls. It is not held during I/O.
//
// Two commands of a session on one slot are never executed in another order than they came. So a
// part is not sent again once a later command on its slot is in flight, except after a redirect:
// those behind it are redirected too.
package call
