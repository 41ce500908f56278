package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkRuns is what the records of a run cost each of 64 callers: accepted,
// begun and ended in the session's row, and its end.
func BenchmarkRuns(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := open(b, stateDir(b), procA)
			var mu sync.Mutex
			var took []time.Duration
			per := max(1, b.N/callers)
			for n := range callers {
				must(b, s.Add(b.Context(), row(fmt.Sprint("s", n))))
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for n := range callers {
				wg.Go(func() {
					session := fmt.Sprint("s", n)
					for i := range per {
						r := run(fmt.Sprint("r", n, "-", i), session)
						began := time.Now()
						_, err := s.AddRun(b.Context(), r, nil, false)
						if err == nil {
							err = s.Begin(b.Context(), session, "r", time.Now())
						}
						if err == nil {
							err = s.End(b.Context(), session, time.Now())
						}
						if err == nil {
							err = s.EndRun(b.Context(), ended(r))
						}
						if err != nil {
							b.Error(err)
							return
						}
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-us")
		})
	}
}

// BenchmarkPrune is what looking for old runs costs when there are as many as are kept.
func BenchmarkPrune(b *testing.B) {
	s := open(b, stateDir(b), procA)
	must(b, s.commit(b.Context(), "fill", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		for n := range 20000 {
			r := run(fmt.Sprint("r", n), fmt.Sprint("s", n/500))
			r.Summary = make([]byte, 1000)
			if err := s.insertRun(ctx, tx, r); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE runs SET state = 'ended', ended = ?", millis(time.Now()))
		return err
	}))
	for b.Loop() {
		_, err := s.Prune(b.Context(), time.Now())
		must(b, err)
	}
}
