// Package replicas measures three nodes of package replica beside dragonboat and etcd: make
// bench-replicas.
package replicas
