package topology

import (
	"net"
	"strconv"
	"strings"
)

// Sentinel is what a sentinel says about its master.
type Sentinel struct {
	Master   string // host:port
	Epoch    int64  // rises with each failover
	Others   []string
	Replicas []string // working replicas
}

// ParseSentinel reads the replies of a sentinel to GET-MASTER-ADDR-BY-NAME, MASTER, SENTINELS and
// SLAVES (https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/), decoded by
// resp.Decode. ok is false without the master's address. Other invalid parts are left out.
func ParseSentinel(at []any, master, others, replicas any) (s Sentinel, ok bool) {
	if len(at) != 2 {
		return s, false
	}
	host, ok1 := at[0].(string)
	port, ok2 := at[1].(string)
	if !ok1 || !ok2 {
		return s, false
	}
	s.Master = net.JoinHostPort(host, port)
	s.Epoch, _ = strconv.ParseInt(pairsOf(master)["config-epoch"], 10, 64)
	list, _ := others.([]any)
	for _, other := range list {
		if m := pairsOf(other); m["ip"] != "" {
			s.Others = append(s.Others, net.JoinHostPort(m["ip"], m["port"]))
		}
	}
	list, _ = replicas.([]any)
	for _, replica := range list {
		m := pairsOf(replica)
		addr := net.JoinHostPort(m["ip"], m["port"])
		if m["flags"] == "slave" && m["master-link-status"] == "ok" && addr != s.Master {
			s.Replicas = append(s.Replicas, addr)
		}
	}
	return s, true
}

// ReplicasIn returns the addresses in the lines "slave0:ip=…,port=…,state=online,…" of INFO.
func ReplicasIn(info string) (addrs []string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !strings.HasPrefix(name, "slave") || !strings.Contains(value, "state=online") {
			continue
		}
		m := make(map[string]string)
		for field := range strings.SplitSeq(value, ",") {
			name, text, _ := strings.Cut(field, "=")
			m[name] = text
		}
		if m["ip"] != "" {
			addrs = append(addrs, net.JoinHostPort(m["ip"], m["port"]))
		}
	}
	return addrs
}
