package redistest

import (
	"crypto/tls"
	"strconv"
)

// TLS is what a server speaks TLS with. It wants certificates of its peers, unless its arguments
// say otherwise.
type TLS struct {
	CA, Cert, Key string      // files
	Config        *tls.Config // for the connections of this package to the server
}

// args are the arguments of redis-server that say where it listens.
func (t *TLS) args(port int) []string {
	if t == nil {
		return []string{"--port", strconv.Itoa(port)}
	}
	return []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-replication", "yes", "--tls-cluster", "yes",
		"--tls-ca-cert-file", t.CA, "--tls-cert-file", t.Cert, "--tls-key-file", t.Key,
	}
}

func (t *TLS) config() *tls.Config {
	if t == nil {
		return nil
	}
	return t.Config
}
