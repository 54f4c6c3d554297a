package loamhttp

import (
	"context"
	"log/slog"

	"github.com/loamdb/loam/lsm"
)

// LogEvents returns a listener for Options.Events that writes each event to l: ends of flushes and
// compactions and stalls with level Info, their beginnings with level Debug, failures with level
// Error. l is called as a listener is.
func LogEvents(l *slog.Logger) *lsm.EventListener {
	ended := func(message string, err error, args ...slog.Attr) {
		level := slog.LevelInfo
		if err != nil {
			level, args = slog.LevelError, append(args, slog.Any("err", err))
		}
		l.LogAttrs(context.Background(), level, message, args...)
	}
	return &lsm.EventListener{
		FlushBegin: func() { l.Debug("flush begins") },
		FlushEnd: func(i lsm.FlushInfo) {
			ended("flush", i.Err, slog.Int64("bytes", i.Bytes), slog.Int("tables", len(i.Output)),
				slog.Duration("duration", i.Duration))
		},
		CompactionBegin: func(i lsm.CompactionInfo) {
			l.Debug("compaction begins", "reason", i.Reason, "inputs", len(i.Inputs), "level",
				i.OutputLevel)
		},
		CompactionEnd: func(i lsm.CompactionInfo) {
			ended("compaction", i.Err, slog.String("reason", i.Reason),
				slog.Int("inputs", len(i.Inputs)), slog.Int("tables", len(i.Output)),
				slog.Int("level", i.OutputLevel), slog.Bool("move", i.TrivialMove),
				slog.Duration("duration", i.Duration))
		},
		WriteStall: func(i lsm.StallInfo) {
			ended("write stall", nil, slog.String("cause", i.Cause),
				slog.Duration("duration", i.Duration))
		},
		BackgroundError: func(err error) { ended("background work failed", err) },
		ReadOnly:        func(err error) { ended("database is now read-only", err) },
	}
}
