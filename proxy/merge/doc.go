// Package merge makes one reply from the replies of several nodes.
//
// A command whose keys lie on several nodes is split, and some commands go to all nodes. The client
// gets one reply, as from one Redis. For each such command a [Func] says how. A Func depends only
// on the replies. If they do not fit together, it says so, and the client gets an error.
package merge
