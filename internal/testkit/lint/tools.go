//go:build tools

// Package lint pins the linters of make lint.
package lint

import _ "honnef.co/go/tools/cmd/staticcheck"
