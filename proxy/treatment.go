package proxy

import "maps"

// class says what Leash does with a command; the README's command reference is
// made of it.
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

// treatment is what Leash does with a command, as the table has it. note adds
// to the class what a user should know.
type treatment struct {
	run   handler
	class class
	note  string
}

// treatments are the commands of a family that Leash answers or treats in a
// way of its own, by upper-case name: "CLIENT|ID". All others are relayed by
// their keys or refused (ordinary).
type treatments map[string]treatment

// allTreatments gathers the families.
func allTreatments() treatments {
	all := treatments{}
	for _, family := range []treatments{
		aclTreatments(),
		blockingTreatments(),
		clientTreatments(),
		clusterTreatments(),
		commandTreatments(),
		configTreatments(),
		connectionTreatments(),
		keyspaceTreatments(),
		monitorTreatments(),
		publishTreatments(),
		pubsubTreatments(),
		scriptTreatments(),
		serverTreatments(),
		slowlogTreatments(),
		subscriptionTreatments(),
		trackingTreatments(),
		transactionTreatments(),
	} {
		maps.Copy(all, family)
	}
	return all
}
