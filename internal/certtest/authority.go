// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Its files and those of the certificates are in one directory.
type Authority struct {
	CA   string // path of its own certificate
	Pool *x509.CertPool

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority is Make for a test, which removes the files at its end.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Make makes an authority whose files are in dir.
func Make(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{CA: filepath.Join(dir, "ca.pem"), Pool: x509.NewCertPool(), dir: dir, key: key}
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.Pool.AddCert(a.cert)
	return a, write(a.CA, "CERTIFICATE", der)
}

// Pair is the files of a certificate and its key.
type Pair struct{ Cert, Key string }

// Issue is Sign for a test.
func (a *Authority) Issue(t testing.TB, change func(*x509.Certificate), names ...string) Pair {
	t.Helper()
	pair, err := a.Sign(change, names...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Sign writes a certificate for the names, or for 127.0.0.1 if there are none. change, if not nil,
// changes it before it is signed. A later call with the same first name replaces the files.
func (a *Authority) Sign(change func(*x509.Certificate), names ...string) (Pair, error) {
	name := "node"
	if len(names) > 0 {
		name = names[0]
	}
	c := template(name)
	c.DNSNames = names
	if len(names) == 0 {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if change != nil {
		change(c)
	}
	pair := Pair{filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return pair, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair, err
	}
	return pair, errors.Join(write(pair.Cert, "CERTIFICATE", der), write(pair.Key, "PRIVATE KEY", private))
}

// Load returns the pair as crypto/tls wants it.
func (p Pair) Load(t testing.TB) tls.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func write(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
