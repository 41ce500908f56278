package confine

import (
	"maps"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkHelper is what confining a program costs beside starting it: from the
// fork of the helper to the exec, in turns with a bare start, and step by step.
func BenchmarkHelper(b *testing.B) {
	steps := make(map[string][]time.Duration)
	for b.Loop() {
		begin := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		steps["bare"] = append(steps["bare"], time.Since(begin))
		p := basePlan(b, "/bin/true")
		i := launch(b, p)
		for _, took := range i.started().Report.Took {
			steps[took.Step] = append(steps[took.Step], took.Took)
		}
		i.ended()
		i.wait()
	}
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		all := slices.Sorted(slices.Values(steps[name]))
		b.ReportMetric(float64(all[0])/1e6, name+"-ms-min")
		b.ReportMetric(float64(all[len(all)/2])/1e6, name+"-ms-p50")
	}
	median := func(name string) float64 {
		all := slices.Sorted(slices.Values(steps[name]))
		return float64(all[len(all)/2]) / 1e6
	}
	b.ReportMetric(median(StageExec)-median("bare"), "overhead-ms-p50")
}
