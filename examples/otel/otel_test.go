package main

import (
	"path/filepath"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/loamdb/loam/lsm"
)

// TestObserve: a collection has the values of Metrics.
func TestObserve(t *testing.T) {
	db, err := lsm.Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reader := sdk.NewManualReader()
	if err := observe(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("loam"), db); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.Put([]byte("key"), []byte("value"), lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for _, s := range got.ScopeMetrics {
		for _, m := range s.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				seen[m.Name] = sum.DataPoints[0].Value
			}
			if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok {
				seen[m.Name] = int64(len(gauge.DataPoints))
			}
		}
	}
	if seen["loam.operations.written"] != 3 || seen["loam.level.size"] != 7 {
		t.Errorf("%v", seen)
	}
}

// TestRun runs the example.
func TestRun(t *testing.T) {
	if err := run(t.Context(), filepath.Join(t.TempDir(), "db")); err != nil {
		t.Error(err)
	}
}
