// Package report puts what Go tells into words for C: reports as JSON, errors as sentences. It is
// safe for concurrent use.
package report

import "encoding/json"

// JSON is v as JSON.
func JSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
