// Package s3 keeps replicas of Loam databases (package lsm/replicate) in object stores that speak
// S3: those of Amazon, Google, Cloudflare and Backblaze, MinIO, Ceph and others. The command
// loam-target-s3 below it is what loam runs for a target of the form s3://bucket/prefix.
package s3
