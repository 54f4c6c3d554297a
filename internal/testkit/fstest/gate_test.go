package fstest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.Pass()
		var passed atomic.Int64
		for range 2 {
			g.Shut()
			for range 3 {
				go func() { g.Pass(); passed.Add(1) }()
			}
			g.Came()
			synctest.Wait()
			if passed.Load() != 0 {
				t.Error("it went through a shut gate")
			}
			g.Open()
			g.Pass()
			synctest.Wait()
			if passed.Load() != 3 {
				t.Errorf("%d of 3 went through an open gate", passed.Load())
			}
			passed.Store(0)
		}
	})
}
