// Package ingest brings tables into an open database that were written outside of its commits:
// those of a TableWriter, by Ingest, and those that a BulkLoader makes of entries in any order.
//
// The file of such a table has sequence number 0 for all entries, and at most one entry of a key.
// The database gives all tables of an ingest one sequence number, which the MANIFEST has
// (manifest.Facts.GlobalSeq) and every reader of the table puts in place of 0 (blocktable.Env). In
// LevelDB's format, which has no place for it, the number stays 0: the table may overlap nothing,
// and no snapshot may be open.
//
// The steps of an ingest:
//
//  1. Each file gets a second name in the directory of the database (a hard link, or a copy where
//     links do not reach), is read through that name from end to end, and made durable. No name of
//     a table means anything before the MANIFEST has it, so what a crash leaves is deleted by the
//     next Open.
//  2. Memtables with entries in the range of a table are flushed: a lookup that finds a key in a
//     memtable looks no further.
//  3. With the lead of the commit pipeline, so that no write is under way: step 2 is checked again;
//     the logs are synced, since the tables are durable at once and a power cut must not leave them
//     without the writes before them; one edit makes the tables live (work.Scheduler.Ingest), and
//     the sequence number becomes visible with them, since a compaction may begin at once
//     (tree.Tree.Install). The logs do not have it; two markers say so, and that the edit
//     is durable (wal.Set.Installed).
//
// If writers fill memtables in the range of a table again and again, step 2 is done while they
// wait.
package ingest
