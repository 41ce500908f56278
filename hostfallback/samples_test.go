package hostfallback

import (
	"slices"
	"testing"
	"time"
)

// samples are durations of one thing, in milliseconds.
type samples []float64

func (s *samples) time(f func()) {
	begin := time.Now()
	f()
	*s = append(*s, float64(time.Since(begin))/1e6)
}

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

func (s samples) report(b *testing.B, name string) {
	b.ReportMetric(s.median(), name+"-ms-p50")
	b.ReportMetric(slices.Min(s), name+"-ms-min")
}
