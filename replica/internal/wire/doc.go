// Package wire is the protocol between loamd and its clients: frames, greetings, calls, answers and
// changes, as bytes. docs/format-loamd.md describes it. It knows no network and no database, so
// that clients which import it stay thin.
package wire
