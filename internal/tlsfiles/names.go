package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
)

// The values of --tls-user-from: which name of a client's certificate is its ACL user.
const (
	UserFromNone = "none"
	UserFromCN   = "cn"      // the common name of the subject
	UserFromURI  = "san-uri" // a URI among the alternative names of the subject
)

// Names returns the names by which a client's certificate may give its ACL user, in the
// certificate's order. There are none if the certificate was not verified. A subject with two
// common names has none, because libraries disagree about which of them counts.
func Names(state tls.ConnectionState, from string) (names []string) {
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	cert := state.PeerCertificates[0]
	switch from {
	case UserFromCN:
		if name := cert.Subject.CommonName; name != "" && commonNames(cert) == 1 {
			names = append(names, name)
		}
	case UserFromURI:
		for _, uri := range cert.URIs {
			names = append(names, uri.String())
		}
	}
	return names
}

// oidCommonName is the type of a common name in a subject.
var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

func commonNames(cert *x509.Certificate) (n int) {
	for _, name := range cert.Subject.Names {
		if name.Type.Equal(oidCommonName) {
			n++
		}
	}
	return n
}
