// Package ingests tests ingests and loads through the whole engine: hostile tables, copies of
// databases that ingested, transactions and range tombstones around an ingest, and work beside it.
package ingests
