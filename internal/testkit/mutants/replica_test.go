package mutants

// replicas are mutants of the interface of all stores, and of the replicated store, which is a
// module of its own.
var replicas = []mutant{
	{"kv-empty-is-missing", "MultiGet of a Store takes an empty value for a missing one",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"values[i] = append([]byte{}, v...)", "values[i] = append([]byte(nil), v...)"}}},

	{"kv-lower-is-lost", "an iterator of a Store begins before its lower bound",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"Lower: o.Lower, Upper: o.Upper, KeysOnly", "Upper: o.Upper, KeysOnly"}}},

	{"kv-snapshot-reads-the-present", "a snapshot of a Store reads the present state",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"return snapshot{reader{snap}, snap}, nil",
			"return snapshot{s.reader, snap}, nil"}}},

	{"replica-log-forgets-snapshot", "the term of the entry that a snapshot ends with is unknown",
		target{"replica", "TestLogBeginsBehindSnapshot"}, []edit{{"replica/guard.go",
			"if m := g.node.disk.snapshotAt(index); m != nil {",
			"if m := g.node.disk.snapshotAt(index); m != nil && index == 0 {"}}},

	{"replica-late-snapshot", "a snapshot that comes late takes later entries from the log",
		target{"replica", "TestLateSnapshot"}, []edit{{"replica/internal/messages/late.go",
			"&& node.answers(m, r) {", "&& r.LastLogIndex == 0 && node.answers(m, r) {"}}},

	{"replica-parts-follow-nothing", "a part of a message follows the entry before the first one",
		target{"replica/internal/messages", "TestInParts"}, []edit{{
			"replica/internal/messages/parts.go",
			"part.Entries = all[sent:]; sent > 0 {", "part.Entries = all[sent:]; sent > 99 {"}}},

	{"loamd-cuts-the-quiet-off", "a client may not be quiet behind a call that came in two pieces",
		target{"replica/internal/server", "TestQuietBehindASplitCall"}, []edit{{
			"replica/internal/server/conn.go",
			"if err == nil && p.timed {", "if err == nil && p.timed && len(body) > 1<<10 {"}}},

	{"loamd-keeps-the-refused", "a refused connection leaves memory behind",
		target{"replica/internal/server", "TestNothingIsKept"}, []edit{{
			"replica/internal/server/server.go",
			"defer c.cancel() // else", "_ = c.cancel // else"}}},

	{"loamd-restores-a-part", "a restore leaves out keyspaces",
		target{"replica/cmd/loamd", "TestRestorable"}, []edit{{"replica/cmd/loamd/copy.go",
			`if name != "default" {`, `if name == "" {`}}},

	{"replica-any-directory", "a member may come with another directory",
		target{"replica/internal/meeting", "TestBook"}, []edit{{
			"replica/internal/meeting/meeting.go",
			"return b, fmt.Errorf(", "return b, nil; return b, fmt.Errorf("}}},

	{"replica-lost-log", "a node without its Raft log removes its databases",
		target{"replica", "TestLostLog"}, []edit{{"replica/disk.go",
			"if err := k.unmarked(); err != nil {", "if err := k.unmarked(); err == ErrHalted {"}}},

	{"replica-adds-the-absent", "a voter is added that does not answer",
		target{"replica", "TestStanding"}, []edit{{"replica/members.go",
			"case adds && !answer(m.ID):", "case adds && m.ID == \"\":"}}},

	{"replica-removes-the-majority", "a voter is removed without which too few are left",
		target{"replica", "TestStanding"}, []edit{{"replica/members.go",
			"len(members) > 0 && !majority(members, answer)",
			"len(members) > 9 && !majority(members, answer)"}}},

	{"replica-another-at-the-address", "the answers of another node count for a member",
		target{"replica", "TestAddressOfAnother"}, []edit{{"replica/met.go",
			"m.Addr == at && m.ID != other.ID", "m.Addr == at && m.ID == \"\""}}},

	{"replica-log-of-any-size", "all entries that the log had in number stay, however large",
		target{"replica/internal/logsize", "TestKeep"}, []edit{{
			"replica/internal/logsize/logsize.go",
			"c.TrailingLogs = min(most, max(", "c.TrailingLogs = max(most, max("}}},

	{"replica-nameless-node", "a caller without a certificate is a node",
		target{"replica", "TestTLS"}, []edit{{"replica/config.go",
			"c.TLS.ClientAuth = tls.RequireAndVerifyClientCert",
			"c.TLS.ClientAuth = tls.RequestClientCert"}}},

	{"replica-clear-log", "the Raft log of an encrypted database is in clear text",
		target{"replica", "TestEncryption"}, []edit{{"replica/config.go",
			"d.Encryption, d.AllowClear = of.Encryption, d.AllowClear || of.AllowClear",
			"_ = of"}}},

	{"server-memory-of-each", "calls of all clients together have any amount of memory",
		target{"replica/internal/server", "TestMemory"}, []edit{{"replica/internal/server/conn.go",
			"c.held - freeCalls - c.charged; n > 0", "c.held - freeCalls - c.charged; n > 1<<40"}}},

	{"server-memory-is-kept", "the memory of calls that are answered stays taken",
		target{"replica/internal/server", "TestFull"}, []edit{{
			"replica/internal/server/conn.go",
			"c.held -= cost c.discharge() c.answered.Broadcast()",
			"c.held -= cost; c.answered.Broadcast()"}}},

	{"server-displaces-speakers", "a caller goes for a newer one while it says its greeting",
		target{"replica/internal/server", "TestCrowd"}, []edit{{
			"replica/internal/server/strangers.go",
			"if wait > 0 { return wait", "if wait > 1<<62 { return wait"}}},

	{"server-silence-is-speech", "a caller that says nothing stays as long as one that speaks",
		target{"replica/internal/server", "TestDisplaced"}, []edit{{
			"replica/internal/server/strangers.go",
			"return s.cfg.Timeout / 20", "return s.cfg.Timeout / 4"}}},

	{"server-any-nodes", "callers that say that they are nodes are not bounded",
		target{"replica/internal/server", "TestNodes"}, []edit{{"replica/internal/server/peers.go",
			"if s.nodes >= s.cfg.MaxNodes {", "if s.nodes < 0 {"}}},

	{"replica-no-barrier", "a new leader reads before an entry of its own term is applied",
		target{"replica", "TestNewLeaderReadsWhatTheOldOneAcknowledged"}, []edit{{
			"replica/index.go",
			"if err := s.mark(ctx, term); err != nil {",
			"if err := ctx.Err(); err != nil {"}}},

	{"replica-no-verification", "a leader reads without asking whether it still is one",
		target{"replica", "TestDeposedLeaderReadsNothing"}, []edit{{"replica/index.go",
			"if err == nil { err = s.acknowledged(ctx, s.transport.acks.begin(), term) }", ""}}},

	{"replica-old-acknowledgement", "an answer to a message of before the read counts",
		target{"replica", "TestAcks"}, []edit{{"replica/acks.go",
			"l.term == term && l.began > after", "l.term == term && l.began > 0"}}},

	{"replica-acknowledged-by-readers", "readers count as voters",
		target{"replica", "TestAcks"}, []edit{{"replica/acks.go",
			"if m.Suffrage != raft.Voter {", "if m.ID == \"\" {"}}},

	{"replica-anybody-acknowledges", "the question of a node that is no voter confirms the leader",
		target{"replica", "TestFollowerAsks"}, []edit{{"replica/index.go",
			"return id == q.id || id == s.id()", "return id != \"\""}}},

	{"replica-any-term-acknowledges", "the question of a follower of another term confirms",
		target{"replica", "TestFollowerAsks"}, []edit{{"replica/index.go",
			"if ok && q.term == s.raft.CurrentTerm() && majority", "if ok && majority"},
			{"replica/index.go", "s.committed(ctx, q.term)",
				"s.committed(ctx, s.raft.CurrentTerm())"}}},

	{"replica-commit-is-not-said", "a follower hears of a commit after a while only",
		target{"replica", "TestFollowerReadsWhatWasWritten"}, []edit{{"replica/index.go",
			"go s.transport.commit(members[i], led, index)", "_ = led"}}},

	{"replica-leads-a-term-of-others", "a message of the leader of a term comes from another node",
		target{"replica", "TestFollowerAsks"}, []edit{{"replica/index.go",
			"i < 0 || q.term != led ||", "i < 0 ||"}}},

	{"replica-forgets-doubt", "a change whose outcome is unknown was not applied by a later error",
		target{"replica", "TestApplyAll"}, []edit{{"replica/write.go",
			"doubt = a.err", "_ = a"}}},

	{"replica-reads-what-is-handed-over", "a read does not wait until the node has applied entries",
		target{"replica", "TestReadsWaitForWhatIsApplied"}, []edit{{"replica/read.go",
			"err = s.fsm.wait(ctx, index)", "_ = index"}}},

	{"replica-index-not-stored", "the applied index is not in the database",
		target{"replica", "TestAppliedOnce"}, []edit{{"replica/fsm.go",
			"b.In(d.system).Put([]byte(appliedKey), binary.BigEndian.AppendUint64(v, l.Term))",
			"_ = v"}}},

	{"replica-applied-twice", "entries up to the applied index are applied again",
		target{"replica", "TestAppliedOnce"}, []edit{{"replica/fsm.go",
			"if l.Index <= applied {", "if l.Index == 0 && applied > 0 {"}}},

	{"replica-skips-one", "the second entry of a call is skipped",
		target{"replica", "TestAppliedOnce"}, []edit{{"replica/fsm.go",
			"out[i] = f.apply(l)",
			"if out[i] = (result{outcome: done}); i != 1 { out[i] = f.apply(l) }"}}},

	{"replica-goes-on", "entries behind one that could not be written are applied",
		target{"replica", "TestNothingIsSkipped"}, []edit{{"replica/fsm.go",
			"if failed != nil { return result{err: failed} }",
			"_ = failed"}}},

	{"replica-unsynced-snapshot", "entries leave the log before the database is synced",
		target{"replica", "TestSnapshotSyncs"}, []edit{{"replica/fsm.go",
			"d.db.Write(lsm.NewBatch(), lsm.Sync)", "d.db.Write(lsm.NewBatch(), lsm.NoSync)"}}},

	{"replica-old-database", "a database that is older than the snapshot is taken",
		target{"replica", "TestOldDatabaseIsRestored"}, []edit{{"replica/disk.go",
			"applied >= snapshot.Index", "applied <= snapshot.Index"}}},

	{"replica-restores-in-place", "a snapshot takes the place of a directory that is read",
		target{"replica", "TestRestoreLeavesReadersAlone"}, []edit{{"replica/fsm.go",
			"d, err := f.node.disk.fill(from)",
			"f.node.disk.remove(f.current.name); " +
				"d, err := f.node.disk.fill(from)"}}},

	{"replica-removes-what-is-read", "a database goes although a reader holds it",
		target{"replica", "TestRestoreLeavesReadersAlone"}, []edit{{"replica/fsm.go",
			"old.release() return nil", "old.close(); return nil"}}},

	{"replica-older-snapshot", "an older snapshot takes the place of a newer one",
		target{"replica", "TestSinks"}, []edit{{"replica/snapshot.go",
			"return cmp.Compare(b.Index, a.Index)", "return cmp.Compare(a.Index, b.Index)"}}},

	{"replica-no-checksum", "the stream of a snapshot is not checked",
		target{"replica", "TestStreams"}, []edit{{
			"replica/internal/snapstream/snapstream.go",
			"if binary.LittleEndian.Uint32(got[:]) != want {",
			"if binary.LittleEndian.Uint32(got[:]) == want-1 {"}}},

	{"replica-names-lead-out", "the stream of a snapshot writes outside of its directory",
		target{"replica", "TestStreamNames"}, []edit{{
			"replica/internal/snapstream/snapstream.go",
			"!filepath.IsLocal(filepath.FromSlash(f.Name))", "f.Name == \"\""}}},

	{"replica-forgets-keys", "an idempotency key is in memory only",
		target{"replica", "TestOnce"}, []edit{{"replica/applying.go",
			"system.Put(onceKey(a.at), append([]byte{byte(done)}, c.Once...))",
			"_, _ = a.at, system"}}},

	{"replica-keys-are-kept", "the oldest idempotency key is never removed",
		target{"replica", "TestOnce"}, []edit{{"replica/applying.go",
			"system.Delete(onceKey(oldest))", "_, _ = oldest, system"}}},

	{"replica-unconditional", "a condition that does not hold is passed over",
		target{"replica", "TestConditions"}, []edit{{"replica/applying.go",
			"return notHeld, nil", "continue"}}},

	{"replica-group-is-blind", "a change does not see those before it in its entry",
		target{"replica", "TestGroups"}, []edit{{"replica/applying.go",
			"if v, ok := a.written[string(key)]; ok {",
			"if v, ok := a.written[string(key)]; ok && len(key) == 0 {"}}},

	{"replica-range-in-group", "a change sees what one before it in its entry deleted by a range",
		target{"replica", "TestGroups"}, []edit{{"replica/applying.go",
			"a.deleted = append(a.deleted, c.Ranges...)", "_ = a.deleted"}}},

	{"replica-keys-collide", "the idempotency keys of an entry have one place",
		target{"replica", "TestGroups"}, []edit{{"replica/once.go",
			"if at.sub == 0 {", "if at.sub < 1<<31 {"}}},

	{"replica-takes-a-place", "a new node takes the place of a member that has its name",
		target{"replica", "TestJoinRefused"}, []edit{{"replica/members.go",
			"string(m.Address) != addr && op == opJoin:",
			"string(m.Address) != addr && op == opRemove:"}}},

	{"loamd-any-token", "a token counts if it is as long as the right one",
		target{"replica/internal/server", "TestToken"}, []edit{{"replica/internal/server/server.go",
			"return subtle.ConstantTimeCompare(x[:], y[:]) == 1",
			"return subtle.ConstantTimeCompare(x[:], y[:]) == 1 || len(a) == len(b)"}}},

	{"replica-closed-to-followers", "a change that was forwarded to a leader which closes fails",
		target{"replica", "TestChangeOfAnEndedSession"}, []edit{{"replica/group.go",
			"fmt.Errorf(\"%w: %w\", errNotLeader, why)", "conclude(why)"}}},

	{"loamd-closed-to-all", "a change on a node that was closed is not tried on another node",
		target{"replica/internal/server", "TestClosedNode"}, []edit{{
			"replica/internal/server/calls.go", "c.answer(x, result, forClient(err))",
			"c.answer(x, result, err)"}, {"replica/internal/server/calls.go",
			"bit(held)}, forClient(err))", "bit(held)}, err)"}}},

	{"loamd-no-checksum", "a frame with a wrong checksum is taken",
		target{"replica/internal/server", "TestBadFrames"}, []edit{{
			"replica/internal/wire/frame.go",
			"if crc32.ChecksumIEEE(body) != sum {",
			"if crc32.ChecksumIEEE(body)+1 == sum {"}}},

	{"loamd-answers-pile-up", "answers are made however many a client has not read",
		target{"replica/internal/server", "TestSlowClient"}, []edit{{
			"replica/internal/stream/stream.go", "len(o.waiting)+o.sending > MaxWaiting",
			"len(o.waiting) < 0"}}},

	{"loamd-unbounded", "calls are read however many wait",
		target{"replica/internal/server", "TestSlowClient"}, []edit{{
			"replica/internal/server/conn.go", "c.held+cost > maxHeld", "c.held+cost < 0"}}},

	{"loamd-client-silent", "a client keeps a connection on which nothing comes",
		target{"replica/client", "TestSilentConnection"}, []edit{{
			"replica/internal/stream/silence.go", "now.Sub(s.since) >= s.patience",
			"now.Before(s.since)"}}},

	{"replica-peer-damaged", "bytes between nodes are taken however they arrive",
		target{"replica", "TestDamagedOnTheWay"}, []edit{{"replica/internal/stream/sum.go",
			"castagnoli) != sum {", "castagnoli) == sum+1 {"}}},

	{"replica-peer-silent", "a node keeps a connection to another one on which nothing comes",
		target{"replica", "TestSilentPeer"}, []edit{{"replica/forward.go",
			"q.silence.Lost(mark, time.Now()) {",
			"q.silence.Lost(mark, time.Now()) && q.conn == nil {"}}},

	{"loamd-client-impatient", "a client takes a slow node for a silent one",
		target{"replica/client", "TestSlowAnswers"}, []edit{{
			"replica/client/link.go", "if l.silence.Ask(", "if !l.silence.Ask("}}},

	{"loamd-batch-closed", "calls that come together do not hold the state that they read",
		target{"replica/internal/server", "TestSnapshotsInABatch"}, []edit{{
			"replica/internal/server/reads.go", "snap: r.view.Keep(), refs: 1}",
			"snap: r.view.Keep()}; defer r.end()"}}},

	{"loamd-snapshots-stay", "a snapshot that is not used stays",
		target{"replica/internal/server", "TestLease"}, []edit{{
			"replica/internal/server/reads.go", "if !h.inUse && h.used.Before(before) {",
			"if !h.inUse && before.Before(h.used) {"}}},

	{"replica-panics", "a term that cannot be stored ends the process",
		target{"replica", "TestTermCannotBeStored"}, []edit{{"replica/guard.go",
			"if err := g.Store.SetUint64(key, v); err != nil { g.end(err) } return nil",
			"return g.Store.SetUint64(key, v)"}}},

	{"replica-lost-is-not-applied", "a change whose leader was lost counts as not applied",
		target{"replica", "TestLostLeaderKnowsNothing"}, []edit{{"replica/write.go",
			"return unknown(err) } // await calls", "return conclude(err) } // await calls"}}},

	{"replica-doubt-is-not-applied", "a change that may have happened counts as not applied, too",
		target{"replica", "TestDoubtStays"}, []edit{{"replica/internal/wire/errors.go",
			"return target == ErrUnknown || target != ErrNotApplied && errors.Is(e.cause, target)",
			"return target == ErrUnknown || errors.Is(e.cause, target)"}}},
}
