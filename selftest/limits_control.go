package selftest

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// limitsControl is the most that the controls may take together.
const limitsControl = 20 * time.Second

// controls attempts the same with nothing around it. The output is counted by the
// reader of the control run, the rest is the kernel's answer. The run that takes no
// notice of its end is timed from outside, so it is a run of its own.
func (l *limiting) controls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, limitsControl)
	defer cancel()
	var quick, alone []Probe
	for _, id := range slices.Sorted(maps.Keys(l.probes)) {
		switch id {
		case wallClock:
			alone = append(alone, l.probes[id])
		case cpuProbe: // has its control beside it
		case crowdProbe:
			if !l.perUser() { // or it has its own after it
				quick = append(quick, l.probes[id])
			}
		default:
			quick = append(quick, l.probes[id])
		}
	}
	l.control(ctx, quick)
	l.control(ctx, alone)
}

func (l *limiting) control(ctx context.Context, probes []Probe) {
	if len(probes) == 0 {
		return
	}
	limits := smallLimits() // more memory than that would take long to fill on a busy machine
	if probes[0].ID == cpuProbe {
		limits = limitsOf(cpuProbe)
	}
	beat := filepath.Join(l.bare.scratch(), beatName)
	began := time.Now()
	source, err := limitsProgram(l.targets(l.bare, limits, beat), probes)
	var said []byte
	if err == nil {
		said, err = l.yard.control(ctx, source, l.bare)
	}
	took := time.Since(began)
	told := outcomes(said)
	for _, p := range probes {
		o, ok := told[p.ID]
		if !ok {
			o = Outcome{Detail: "it said nothing"}
			if err != nil {
				o.Detail = err.Error()
			}
		}
		yes := o.OK
		switch {
		case p.ID == floodOutput:
			yes = int64(len(said)) > 4*limits.OutputKept
		case p.ID == wallClock:
			yes = o.OK && took > limitsTimeout
		case p.ID == surviveTimeout || p.ID == surviveClose:
			info, err := os.Lstat(beat + strings.TrimPrefix(p.ID, "tree-survive"))
			yes = o.OK && err == nil && info.Size() > 1
		}
		switch {
		case p.Witness == Program:
			o.Seen = SeenNone
		case yes:
			o.Seen = SeenYes
		default:
			o.Seen = SeenNo
		}
		l.put(p.ID, func(t *tried) { t.control = o })
	}
}
