// Package equalkeys tests features beside each other under comparers for which different bytes
// are one key, against a model that asks the comparer: batches over keyspaces, values that expire,
// merges, range deletes, ingests, transactions, and copies.
package equalkeys
