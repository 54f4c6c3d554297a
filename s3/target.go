package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/loamdb/loam/lsm/replicate"
)

// target is a prefix of a bucket.
type target struct {
	client *minio.Client
	bucket string
	prefix string // "" or with a slash at its end
}

// Open is a target for the objects of a bucket below a prefix: s3://bucket/prefix. Parameters of
// the address are endpoint, a host with an optional port, the default being s3.amazonaws.com;
// region, if it is not found out; and insecure=true for HTTP. Keys are those of the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), of ~/.aws/credentials, or of the
// machine's role. The bucket has to exist. Open fails if the address is malformed; it asks nobody.
func Open(address string) (replicate.Target, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	q := u.Query()
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
	client, err := minio.New(endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: q.Get("insecure") != "true", Region: q.Get("region"),
	})
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &target{client, u.Host, prefix}, nil
}

// Put sends a checksum with the object, which the store compares; several parts become one object
// or none.
func (t *target) Put(ctx context.Context, name string, data []byte) error {
	_, err := t.client.PutObject(ctx, t.bucket, t.prefix+name, bytes.NewReader(data),
		int64(len(data)), minio.PutObjectOptions{ContentType: "application/octet-stream",
			SendContentMd5: true})
	return err
}

func (t *target) Get(ctx context.Context, name string) (b []byte, err error) {
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
