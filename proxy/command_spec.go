package proxy

import "maps"

// class is how Leash treats a command. docs/commands.md has a list of each class.
type class string

const (
	relayed    class = "relayed"      // to the node of its keys, whole
	anyNode    class = "any node"     // relayed to one node, whichever
	splitUp    class = "split"        // by slot, and the replies merged
	everyNode  class = "every master" // and the replies merged
	pinnedConn class = "pinned"       // on a connection of the session's own
	subscribed class = "subscriber"   // by the shared subscriber
	answered   class = "answered"     // by Leash itself
	refused    class = "refused"      // with a reason
)

// commandSpec is the table's entry for a command. note adds for users what the class does not say.
type commandSpec struct {
	run   handler
	class class
	note  string
}

// commandSpecs are the commands of a family that Leash answers or treats in a
// way of its own, by upper-case name: "CLIENT|ID". All others are relayed by
// their keys or refused (ordinary).
type commandSpecs map[string]commandSpec

// allSpecs gathers the families.
func allSpecs() commandSpecs {
	all := commandSpecs{}
	for _, family := range []commandSpecs{
		aclSpecs(),
		blockingSpecs(),
		clientSpecs(),
		clusterSpecs(),
		commandInfoSpecs(),
		configSpecs(),
		connectionSpecs(),
		keyspaceSpecs(),
		monitorSpecs(),
		publishSpecs(),
		pubsubSpecs(),
		scriptSpecs(),
		serverSpecs(),
		slowlogSpecs(),
		subscriptionSpecs(),
		trackingSpecs(),
		transactionSpecs(),
	} {
		maps.Copy(all, family)
	}
	return all
}
