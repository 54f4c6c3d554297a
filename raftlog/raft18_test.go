//go:build raft18

package raftlog

import "github.com/hashicorp/raft"

var _ raft.CommitTrackingLogStore = (*Store)(nil)

func init() { restoreCommitted = func(c *raft.Config) { c.RestoreCommittedLogs = true } }
