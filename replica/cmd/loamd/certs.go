package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of a directory of certificates.
const (
	caFile, caKeyFile     = "ca.pem", "ca.key"
	nodeFile, nodeKeyFile = "node.pem", "node.key"
)

// nodeTLS is how a node speaks TLS, to clients and to other nodes.
func nodeTLS(dir string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, nodeFile), filepath.Join(dir, nodeKeyFile))
	if err != nil {
		return nil, fmt.Errorf("%w: \"loamd certs\" makes such a directory", err)
	}
	pool, err := authority(dir)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13}, nil
}

// clientTLS is how a client speaks TLS.
func clientTLS(dir string) (*tls.Config, error) {
	pool, err := authority(dir)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

func authority(dir string) (*x509.CertPool, error) {
	name := filepath.Join(dir, caFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s has no certificate", name)
	}
	return pool, nil
}

// certValid is how long certificates are valid.
const certValid = 10 * 365 * 24 * time.Hour

// certs makes a directory of certificates. An authority that is there is used again.
func certs(f *flag.FlagSet, args []string, out io.Writer) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() < 2 {
		f.Usage()
		return flag.ErrHelp
	}
	dir, hosts := f.Arg(0), f.Args()[1:]
	for _, h := range hosts {
		if net.ParseIP(h) == nil && (h == "" || strings.ContainsAny(h, ":/[] ,")) {
			return fmt.Errorf("%q is no host: want names or addresses, without ports", h)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, caKey, err := makeAuthority(dir)
	if err != nil {
		return err
	}
	t := &x509.Certificate{Subject: pkix.Name{CommonName: hosts[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if _, _, err = makeCert(dir, nodeFile, nodeKeyFile, t, ca, caKey); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has %s for clients, %s and %s for the nodes, "+
		"and %s to make more\n",
		dir, caFile, nodeFile, nodeKeyFile, caKeyFile)
	return err
}

func makeAuthority(dir string) (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, caFile), filepath.Join(dir, caKeyFile))
	switch {
	case err == nil:
		return pair.Leaf, pair.PrivateKey.(crypto.Signer), nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	for _, name := range []string{caFile, caKeyFile} { // nodes may trust it
		if _, there := os.Lstat(filepath.Join(dir, name)); there == nil {
			return nil, nil, fmt.Errorf("%w: %s has %s alone; bring the other file here, or name "+
				"another directory to begin a new authority", err, dir, name)
		}
	}
	return makeCert(dir, caFile, caKeyFile,
		&x509.Certificate{Subject: pkix.Name{CommonName: "Loam"},
			KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}, nil, nil)
}

// makeCert makes a certificate and its key, signed by another one, or by itself, and stores both.
func makeCert(dir, file, keyFile string, t, by *x509.Certificate,
	byKey crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	numbers := new(big.Int).Lsh(big.NewInt(1), 120)
	if t.SerialNumber, err = rand.Int(rand.Reader, numbers); err != nil {
		return nil, nil, err
	}
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(certValid)
	if by == nil {
		by, byKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by, key.Public(), byKey)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		err = writePEM(filepath.Join(dir, keyFile), "PRIVATE KEY", private, 0o600)
	}
	if err == nil {
		err = writePEM(filepath.Join(dir, file), "CERTIFICATE", der, 0o644)
	}
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func writePEM(name, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
