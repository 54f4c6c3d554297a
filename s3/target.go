package s3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/loamdb/loam/lsm/replicate"
)

// target is a prefix of a bucket.
type target struct {
	client *minio.Client
	bucket string
	prefix string // "" or with a slash at its end

	partSize uint64 // of uploads in several parts
	tries    int    // how often an object is read
}

// usualTries is how often an object is read.
const usualTries = 5

// usualPart is larger than a part of a snapshot. An object of up to that size is stored by one
// request. Several requests cost more, and a failure between them leaves parts that no list shows.
const usualPart = 64 << 20

// Open is a target for the objects of a bucket below a prefix: s3://bucket/prefix. Parameters of
// the address are endpoint, a host with an optional port, the default being s3.amazonaws.com;
// region, if it is not found out; and insecure=true for HTTP. Keys are those of the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), of ~/.aws/credentials, or of the
// machine's role. The bucket has to exist. Open fails if the address is malformed; it asks nobody.
func Open(address string) (replicate.Target, error) { return open(address, nil, 0) }

// open is Open with a transport, nil for the usual one, and the number of times that a request is
// tried, 0 for the usual one.
func open(address string, transport http.RoundTripper, tries int) (replicate.Target, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	q, err := url.ParseQuery(u.RawQuery) // Query leaves out what is malformed, an endpoint say
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	for name := range q {
		if name != "endpoint" && name != "region" && name != "insecure" {
			return nil, fmt.Errorf("parameter %q of %s is not known; want endpoint, region or "+
				"insecure", name, u.Redacted())
		}
	}
	if u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%s is no address of the form s3://bucket/prefix", u.Redacted())
	}
	endpoint := q.Get("endpoint")
	if endpoint == "" {
		endpoint = "s3.amazonaws.com"
	}
	secure := q.Get("insecure") != "true"
	if transport == nil {
		usual, err := minio.DefaultTransport(secure)
		if err != nil {
			return nil, err
		}
		usual.DialContext = impatient(usual.DialContext)
		transport = usual
	}
	client, err := minio.New(endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: secure, Region: q.Get("region"), Transport: lists{transport}, MaxRetries: tries,
	})
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &target{client, u.Host, prefix, usualPart, cmp.Or(tries, usualTries)}, nil
}

// maxSilence is how long no byte may move on a connection while somebody waits for one. The system
// gives up packets without an answer after a quarter of an hour, and waits for a store that answers
// them, and does nothing else, without end.
const maxSilence = 2 * time.Minute

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// impatient makes connections that fail after maxSilence.
func impatient(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return connection{c}, nil
	}
}

// connection puts its deadlines off whenever bytes move: an answer is waited for while a long
// request is sent.
type connection struct{ net.Conn }

func (c connection) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(maxSilence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c connection) Write(b []byte) (n int, err error) {
	const piece = 64 << 10
	for err == nil && n < len(b) {
		if err = c.SetDeadline(time.Now().Add(maxSilence)); err == nil {
			var moved int
			moved, err = c.Conn.Write(b[n:min(n+piece, len(b))])
			n += moved
		}
	}
	return n, err
}

// lists is a transport that refuses an answer to a list which is none, of a gateway for instance:
// the library takes every element of XML for a list, and those without objects for an empty one.
type lists struct{ http.RoundTripper }

// maxPage bounds a page of a list, which has 1,000 names of at most 1 KiB and their attributes.
const maxPage = 16 << 20

func (l lists) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := l.RoundTripper.RoundTrip(r)
	if err != nil || a.StatusCode != http.StatusOK || !r.URL.Query().Has("list-type") {
		return a, err
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxPage))
	if err = errors.Join(err, a.Body.Close()); err != nil {
		return nil, err
	}
	a.Body = io.NopCloser(bytes.NewReader(b))
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("the answer to a list is no XML: %w", err)
		}
		if root, ok := token.(xml.StartElement); ok {
			if root.Name.Local != "ListBucketResult" {
				return nil, fmt.Errorf("the answer to a list is a %.100q", root.Name.Local)
			}
			return a, nil
		}
	}
}

// Put sends a checksum with the object, which the store compares; several parts become one object
// or none. An answer without an ETag is not one of a store.
func (t *target) Put(ctx context.Context, name string, data []byte) error {
	made, err := t.client.PutObject(ctx, t.bucket, t.prefix+name, bytes.NewReader(data),
		int64(len(data)), minio.PutObjectOptions{ContentType: "application/octet-stream",
			SendContentMd5: true, PartSize: t.partSize})
	if err == nil && made.ETag == "" {
		err = errors.New("the answer is not that of a store: it has no ETag")
	}
	return err
}

// Get reads an object again whose bytes did not all arrive: the library tries requests again, and
// leaves the reading of an answer to its caller.
func (t *target) Get(ctx context.Context, name string) (b []byte, err error) {
	for try := 1; ; try++ {
		b, err = t.get(ctx, name)
		var failed *url.Error // of a request that was tried again
		var response minio.ErrorResponse
		if err == nil || errors.As(err, &failed) || errors.As(err, &response) ||
			errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil || try == t.tries {
			return b, err
		}
	}
}

func (t *target) get(ctx context.Context, name string) (b []byte, err error) {
	o, err := t.client.GetObject(ctx, t.bucket, t.prefix+name, minio.GetObjectOptions{})
	if err == nil {
		b, err = io.ReadAll(o)
		err = errors.Join(err, o.Close())
	}
	var response minio.ErrorResponse
	if errors.As(err, &response) && response.StatusCode == http.StatusNotFound &&
		response.Code == minio.NoSuchKey {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return b, err
}

func (t *target) List(ctx context.Context, prefix string) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx) // the listing ends with it
	defer cancel()
	for o := range t.client.ListObjects(ctx, t.bucket, minio.ListObjectsOptions{
		Prefix: t.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		names = append(names, strings.TrimPrefix(o.Key, t.prefix))
	}
	return names, ctx.Err()
}

func (t *target) Delete(ctx context.Context, name string) error {
	return t.client.RemoveObject(ctx, t.bucket, t.prefix+name, minio.RemoveObjectOptions{})
}
