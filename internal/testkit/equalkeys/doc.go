// Package equalkeys tests features beside each other under comparers by which different bytes are
// equal keys, against a model that asks the comparer: batches over keyspaces, values that expire,
// merges, range deletes, ingests, transactions, and copies.
package equalkeys
