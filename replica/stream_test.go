package replica

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/replica/internal/snapstream"
	"github.com/loamdb/loam/replica/internal/stream"
	"github.com/loamdb/loam/replica/internal/wire"
)

// TestStreams unpacks the stream of a snapshot whole, cut at every byte, and with changed bytes.
func TestStreams(t *testing.T) {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	all, contents := states(t, 4)
	m.apply(all...)
	must(t, m.snapshot())
	meta, r, err := m.node.disk.Open(m.node.disk.state.Snapshots[0].ID)
	must(t, err)
	whole, err := io.ReadAll(r)
	must(t, err, r.Close())
	if int64(len(whole)) != meta.Size {
		t.Fatalf("%d bytes, and the size is %d", len(whole), meta.Size)
	}
	fs := crashfs.New()
	must(t, snapstream.Unpack(fs, bytes.NewReader(whole), "/a/snap-9"))
	o := small
	o.FS, o.ReadOnly = fs, true
	db, err := lsm.Open("/a/snap-9", &o)
	must(t, err)
	if v, err := db.Get([]byte("n"), nil); err != nil || string(v) != "4" {
		t.Errorf("%q, %v of %q", v, err, contents[4])
	}
	must(t, db.Close())
	for i := range whole {
		cut := crashfs.New()
		err := snapstream.Unpack(cut, bytes.NewReader(whole[:i]), "/a/snap-9")
		if !errors.Is(err, snapstream.ErrStream) {
			t.Errorf("cut behind %d bytes: %v", i, err)
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 0x55
		on := crashfs.New()
		if err := snapstream.Unpack(on, bytes.NewReader(changed), "/a/snap-9"); err == nil {
			t.Errorf("byte %d changed: no error", i)
		}
		for _, disk := range []*crashfs.FS{cut, on} {
			names, err := disk.List("/")
			if must(t, err); len(names) > 1 || len(names) == 1 && names[0] != "a" {
				t.Fatalf("byte %d: files %q", i, names)
			}
		}
	}
	m.close()
}

// TestStreamNames refuses names that lead out of the directory.
func TestStreamNames(t *testing.T) {
	for _, name := range []string{"../x", "/x", "a/../../x", "", ".",
		"..", `a\b`, "c:x", "a//b", "a/"} {
		b := binary.LittleEndian.AppendUint32([]byte(snapstream.Magic), snapstream.Version)
		b = binary.LittleEndian.AppendUint32(b, 1)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
		b = binary.LittleEndian.AppendUint64(append(b, name...), 1)
		err := snapstream.Unpack(crashfs.New(), bytes.NewReader(b), "/a/snap-9")
		if !errors.Is(err, snapstream.ErrStream) ||
			!strings.Contains(err.Error(), "file") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSinks cancels a stream, ends one too early, and keeps the newer of two snapshots.
func TestSinks(t *testing.T) {
	m, err := openMachine(t, crashfs.New())
	must(t, err)
	all, _ := states(t, 4)
	k := m.node.disk
	create := func(index uint64) *sink {
		s, err := k.Create(1, index, 3, raft.Configuration{}, 1, nil)
		must(t, err)
		return s.(*sink)
	}
	m.apply(all[:2]...)
	older := create(2)
	must(t, older.checkpoint(m.current.db))
	m.apply(all[2:]...)
	must(t, m.snapshot())
	newest := k.state.Snapshots[0]
	must(t, older.Close())
	half := create(9)
	_, err = half.Write([]byte(snapstream.Magic))
	must(t, err)
	if err := half.Close(); !errors.Is(err, snapstream.ErrStream) {
		t.Errorf("half a stream: %v", err)
	}
	for range 2 {
		gone := create(9)
		_, err = gone.Write([]byte(snapstream.Magic))
		must(t, err, gone.Cancel())
	}
	list, err := k.List()
	must(t, err)
	if len(list) != 1 || list[0].ID != newest.ID || list[0].Index != 4 {
		t.Errorf("snapshots %+v", list[0])
	}
	names, err := k.fs.List("/a")
	must(t, err)
	if len(names) != 3 {
		t.Errorf("%q is left", names)
	}
	m.close()
}

// TestBadCallers sends a node what no node sends. It answers the others as before.
func TestBadCallers(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	hello := append([]byte(greeting), protocolVersion, byte(callConn), 4)
	const intro = "\x01x\x01m" // the node x, whose directory has the mark m
	hello = append(hello, "loam"+intro...)
	frame := func(size uint32, b ...byte) []byte {
		b = append(binary.LittleEndian.AppendUint32(nil, size), b...)
		return stream.AppendSum(bytes.Clone(hello), b)
	}
	damaged := frame(3, 1, 2, 3)
	damaged[len(damaged)-1] ^= 1
	header := make([]byte, callHeader)
	header[8], header[9] = 0xff, 0xff
	header[12] = byte(opChange)
	for _, b := range [][]byte{
		{}, []byte("GET / HTTP/1.1\r\n\r\n"), hello[:5], hello[:len(hello)-1], frame(1 << 31),
		frame(3, 1, 2, 3),
		damaged, append(bytes.Clone(hello), "\xff\xff\xff\xffxxxx"...), append(hello, 0, 0, 0, 0),
		frame(callHeader, header...), frame(callHeader+2, append(header, 1, 200)...),
		append(append([]byte(greeting), 9, 1, 4), "loam"...),
		append(append([]byte(greeting), protocolVersion, 9, 4), "loam"...),
		append(append([]byte(greeting), protocolVersion, byte(raftConn), 4),
			"loam"+intro+"\xff\xff\xff"...),
		stream.AppendSum(append(append([]byte(greeting), protocolVersion, byte(raftConn), 4),
			"loam"+intro...), []byte("\xff\xff\xff")),
	} {
		conn, err := net.Dial("tcp", c.net.at[addr(led)])
		must(t, err)
		_, err = conn.Write(b)
		must(t, err, conn.(*net.TCPConn).CloseWrite())
		_, _ = io.ReadAll(conn) // until the node closes its side
		must(t, conn.Close())
	}
	put(t, c.nodes[c.follower(led)], "k", "1")
	has(t, c.nodes[c.leader()], "k", "1")
}

// TestMalformedChanges decodes every cut of a change, and wants the change itself back.
func TestMalformedChanges(t *testing.T) {
	e := entry(t, 1, &wire.Change{Once: []byte("once"), Conditions: []wire.Condition{
		wire.ConditionOf([]byte("a"), []byte("b")), wire.ConditionOf([]byte("a"), nil)}}, "k", "v")
	c, err := wire.DecodeChange(e.Data)
	must(t, err)
	if again, err := c.Encode(); err != nil || !bytes.Equal(again, e.Data) {
		t.Errorf("%q, %v", again, err)
	}
	for i := range e.Data {
		c, err := wire.DecodeChange(e.Data[:i])
		if err == nil {
			_, err = lsm.BatchFromBytes(c.Batch)
		}
		if err == nil {
			t.Errorf("cut behind %d bytes: %+v", i, c)
		}
	}
	e.Data[0] = 0xff
	if _, err := wire.DecodeChange(e.Data); !errors.Is(err, lsm.ErrNewerFormat) {
		t.Errorf("a change of the next version: %v", err)
	}
}

// certificate makes one that all nodes have, and the pool that knows it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a", "b", "c"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS runs a cluster over TLS, and refuses a node without the certificate.
func TestTLS(t *testing.T) {
	mine, pool := certificate(t)
	c := newCluster(t, func(cfg *Config) {
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{mine}, RootCAs: pool}
	}, "a", "b", "c")
	n := c.nodes[c.follower(c.leader())]
	put(t, n, "k", "1")
	if v, err := n.Get(t.Context(), []byte("k")); err != nil || string(v) != "1" {
		t.Errorf("%q, %v", v, err)
	}
	other, _ := certificate(t)
	plain := c.config("d")
	stranger := c.config("e")
	stranger.TLS = &tls.Config{Certificates: []tls.Certificate{other}, RootCAs: pool}
	nameless := c.config("f")
	nameless.TLS = &tls.Config{RootCAs: pool}
	for _, cfg := range []*Config{plain, stranger, nameless} {
		id := cfg.ID
		c.start(id)
		_, _, err := c.nodes[id].run.Load().peers.call(shortly(t), addr("a"), opIndex, nil)
		if err == nil {
			t.Errorf("%s is answered", id)
		}
		c.stop(id)
	}
}
