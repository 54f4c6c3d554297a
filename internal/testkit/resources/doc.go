// Package resources tests databases that share Resources: what belongs to them is closed in every
// order, and all options and limits that change are changed while everything runs.
//
// The package has no code of its own to call.
package resources
