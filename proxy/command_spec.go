package proxy

import "maps"

// class is how Leash treats a command. docs/commands.md has a list of each class.
type class string

const (
	relayed    class = "relayed"      // whole, to the node of its keys
	anyNode    class = "any node"     // relayed to any one node
	splitUp    class = "split"        // by slot; the replies are merged
	everyNode  class = "every master" // to each; the replies are merged
	pinnedConn class = "pinned"       // on a connection of the session's own
	subscribed class = "subscriber"   // by the shared subscriber
	answered   class = "answered"     // by Leash itself
	refused    class = "refused"      // with a reason
	leashOnly  class = "leash only"   // Redis does not have it
)

// commandSpec is the table's entry for a command. note tells users what the class does not say.
type commandSpec struct {
	run   handler
	class class
	note  string
}

// commandSpecs are the commands of a family that need more than being relayed. The names are upper
// case, such as "CLIENT|ID". All other commands are relayed by their keys or refused (see
// ordinary).
type commandSpecs map[string]commandSpec

// allSpecs returns the commands of all families.
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
