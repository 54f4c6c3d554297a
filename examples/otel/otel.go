// Otel hands the metrics of a database to OpenTelemetry. A program has a Reader of its own in place
// of the one that writes to standard output.
package main

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/loamhttp"
)

func main() {
	if err := run(context.Background(), "db"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	db, err := lsm.Open(dir, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	out, err := stdoutmetric.New()
	if err != nil {
		return err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(out)))
	if err := observe(provider.Meter("loam"), db); err != nil {
		return err
	}
	if err := db.Put([]byte("key"), []byte("value"), lsm.Sync); err != nil {
		return err
	}
	return provider.Shutdown(ctx) // which collects once more
}

// observe registers instruments whose values are read at each collection.
func observe(meter metric.Meter, db *lsm.DB) error {
	written, err := meter.Int64ObservableCounter("loam.operations.written")
	if err != nil {
		return err
	}
	stalled, err := meter.Float64ObservableCounter("loam.stall.duration", metric.WithUnit("s"))
	if err != nil {
		return err
	}
	level, err := meter.Int64ObservableGauge("loam.level.size", metric.WithUnit("By"))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m := db.Metrics()
		o.ObserveInt64(written, int64(m.LastSequence))
		for cause, s := range m.Stalls {
			o.ObserveFloat64(stalled, s.Duration.Seconds(),
				metric.WithAttributes(attribute.String("cause", cause)))
		}
		for keyspace, m := range loamhttp.Keyspaces(db) {
			for i, l := range m.Levels {
				o.ObserveInt64(level, int64(l.Bytes), metric.WithAttributes(
					attribute.String("keyspace", keyspace), attribute.Int("level", i)))
			}
		}
		return nil
	}, written, stalled, level)
	return err
}
