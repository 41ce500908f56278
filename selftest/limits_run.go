package selftest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

const (
	limitsTimeout  = 600 * time.Millisecond // of the run that ignores its end
	limitsPatience = 3 * time.Second        // after which a run that should have ended has not
	limitsRun      = 10 * time.Second       // of any other run
	limitsClose    = 12 * time.Second
	beatEnds       = time.Second            // in which a heartbeat has to end
	beatTime       = 150 * time.Millisecond // in which a heartbeat is heard, many times over
)

// smallLimits are reached with little. No session of a user's has them.
func smallLimits() sandbox.Limits {
	return sandbox.Limits{
		Memory: 96 << 20, Processes: smallProcesses, MilliCPU: 2000, OpenFiles: 96, FileSize: 2 << 20,
		Workspace: 4 << 20, OutputKept: 32 << 10, OutputLogged: 64 << 10,
	}
}

// limitGroups are the sessions, and in each the attempts in their order. What may end
// a session comes late in it; the next attempt starts a fresh instance then. Where the
// kernel counts all processes of the user, the one that starts many is by itself.
func limitGroups(perUser bool) [][]string {
	crowd, rest := []string{crowdProbe, "limit-disk"}, []string{"tree-survive-timeout"}
	if perUser {
		crowd, rest = crowd[:1], append(rest, crowd[1])
	}
	return [][]string{
		{"limit-open-files", "limit-raise", "limit-file-size", "limit-output", "tree-survive-close"},
		{"limit-memory", "limit-memory-tree"},
		crowd,
		rest,
		{cpuProbe},
	}
}

// perUser tells whether a session's processes count against those of others, by the
// forecast of the host sandbox.
func (l *limiting) perUser() bool {
	return slices.ContainsFunc(l.subject.Forecast, func(row sandbox.Layer) bool {
		return row.ID == sandbox.ProcessLimit && row.Code == "nproc-per-user"
	})
}

// limiting is a limit stage that runs.
type limiting struct {
	stage
	probes map[string]Probe
	plot   *plot // of the sessions
	bare   *plot // of the controls

	others sync.WaitGroup // the attempts that need processors and processes, and are about neither
	crowd  sync.WaitGroup // the one that starts many processes

	mu  sync.Mutex
	out map[string]tried // guarded by mu
}

func limited(ctx context.Context, st stage, probes []Probe) map[string]tried {
	l := &limiting{stage: st, probes: map[string]Probe{}, out: map[string]tried{}}
	for _, p := range probes {
		l.probes[p.ID] = p
	}
	if len(probes) == 0 {
		return l.out
	}
	fail := func(err error) map[string]tried {
		for _, p := range probes {
			l.out[p.ID] = tried{control: Outcome{Detail: err.Error()}}
		}
		return l.out
	}
	var err error
	if l.bare, err = st.yard.plot("control", nil); err != nil {
		return fail(err)
	}
	if l.plot, err = st.yard.plot("limits", nil); err != nil {
		return fail(err)
	}
	l.say("trying small limits")
	work := []func(){func() { defer l.others.Done(); l.controls(ctx) }}
	l.others.Add(1)
	perUser := l.perUser()
	var last []func()
	for _, ids := range limitGroups(perUser) {
		switch {
		case ids[0] == cpuProbe:
			last = append(last, func() { l.group(ctx, ids) })
		case ids[0] == crowdProbe && perUser:
			l.crowd.Add(1)
			last = append(last, func() { defer l.crowd.Done(); l.others.Wait(); l.group(ctx, ids) })
		default:
			l.others.Add(1)
			work = append(work, func() { defer l.others.Done(); l.group(ctx, ids) })
		}
	}
	work = append(work, last...)
	var wg sync.WaitGroup
	for _, f := range work {
		if st.options.Gentle {
			f()
		} else {
			wg.Go(f)
		}
	}
	wg.Wait()
	return l.out
}

func (l *limiting) say(what string) {
	if l.step != nil {
		l.step(what)
	}
}

func (l *limiting) put(id string, change func(*tried)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.out[id]
	change(&t)
	l.out[id] = t
}

// limitsProgram leaves out the attempts of other stages: a session with half a
// processor and little time takes long to read them.
func limitsProgram(targets map[string]any, probes []Probe) ([]byte, error) {
	return programOf([]string{"attempts/limits.py"}, targets, probes)
}

// targets is what an attempt with these limits is told.
func (l *limiting) targets(p *plot, limits sandbox.Limits, beat string) map[string]any {
	t := p.targets()
	t["beat"] = beat
	t["limits"] = map[string]any{
		"memory": limits.Memory, "processes": limits.Processes, "milli_cpu": limits.MilliCPU, "open_files": limits.OpenFiles,
		"file_size": limits.FileSize, "workspace": limits.Workspace, "output_kept": limits.OutputKept,
	}
	return t
}

// limitsOf are the limits of the session of an attempt: half a processor for the one
// that counts them, so that the control can tell even where there is only one.
func limitsOf(id string) sandbox.Limits {
	limits := smallLimits()
	switch id {
	case crowdProbe, cpuProbe:
		// A kernel of the session's own lives in its memory, and every process takes
		// some: what is to be reached first is the other limit.
		limits.Memory = 512 << 20
	}
	if id == cpuProbe {
		limits.MilliCPU = 500
	}
	return limits
}

// Attempts that are more than a program. The wall clock's is the end of the run that
// surviveTimeout is about.
const (
	cpuProbe       = "limit-cpu"
	crowdProbe     = "limit-processes"
	floodOutput    = "limit-output"
	surviveClose   = "tree-survive-close"
	surviveTimeout = "tree-survive-timeout"
	wallClock      = "clock-ignore"
)

// group makes the attempts of one session.
func (l *limiting) group(ctx context.Context, ids []string) {
	var wanted []string
	for _, id := range ids {
		if _, ok := l.probes[id]; ok {
			wanted = append(wanted, id)
		} else if _, ok := l.probes[wallClock]; ok && id == surviveTimeout {
			wanted = append(wanted, id)
		}
	}
	if len(wanted) == 0 {
		return
	}
	dir := filepath.Join(l.yard.dir, "limits-"+random(4))
	if err := os.Mkdir(dir, 0o700); err != nil {
		l.unable(wanted, err)
		return
	}
	base := l.subject.Base
	base.Limits = limitsOf(wanted[0])
	s, err := l.subject.Open(ctx, Opening{Base: base, Workspace: dir})
	if err != nil {
		l.unable(wanted, err)
		return
	}
	closed := false
	end := func() error {
		if closed {
			return nil
		}
		closed = true
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), limitsClose)
		defer cancel()
		return s.Close(bound)
	}
	defer func() { _ = end() }()
	for _, id := range wanted {
		posture := s.Posture()
		a := &limitAttempt{l: l, s: s, id: id, dir: dir, limits: base.Limits, posture: posture}
		switch id {
		case surviveTimeout:
			o, clock := a.surviveTimeout(ctx)
			l.record(id, posture, o)
			l.record(wallClock, posture, clock)
		case surviveClose:
			l.record(id, posture, a.surviveClose(ctx, end))
		case cpuProbe:
			// When the rest is done, and beside its control, so that a machine which leaves it little leaves the
			// control little as well, and nobody takes that for a limit.
			l.others.Wait()
			l.crowd.Wait()
			l.control(ctx, []Probe{l.probes[id]})
			l.record(id, posture, a.plain(ctx))
		case crowdProbe:
			l.record(id, posture, a.plain(ctx))
			if l.perUser() { // its control as well would be in the way of the others
				l.control(ctx, []Probe{l.probes[id]})
			}
		case floodOutput:
			l.record(id, posture, a.flood(ctx))
		default:
			l.record(id, posture, a.plain(ctx))
		}
	}
}

// unable says of attempts that they were not made.
func (l *limiting) unable(ids []string, err error) {
	for _, id := range ids {
		l.record(id, sandbox.Posture{}, Outcome{Detail: err.Error()})
		if id == surviveTimeout {
			l.record(wallClock, sandbox.Posture{}, Outcome{Detail: err.Error()})
		}
	}
}

func (l *limiting) record(id string, p sandbox.Posture, o Outcome) {
	if _, ok := l.probes[id]; !ok {
		return
	}
	if o.Seen == "" {
		o.Seen = SeenNone
	}
	l.put(id, func(t *tried) {
		t.posture = p
		t.attempts = append(t.attempts, Attempt{In: "limits", Outcome: o, Posture: p.Digest()})
	})
}

// limitAttempt is one attempt in a session.
type limitAttempt struct {
	l       *limiting
	s       *orchestrator.Session
	id      string
	dir     string // the session's workspace, as seen from outside
	limits  sandbox.Limits
	posture sandbox.Posture
}

// run attempts what the probe says and returns what was said, how the run ended,
// and how much output came.
func (a *limitAttempt) run(ctx context.Context, timeout time.Duration, tail string) (Outcome, orchestrator.Result, int64) {
	p := a.l.probes[a.id]
	p.ID = a.id
	began := time.Now()
	source, err := limitsProgram(a.l.targets(a.l.plot, a.limits, ""), []Probe{p})
	if err != nil {
		return Outcome{Detail: err.Error()}, orchestrator.Result{}, 0
	}
	var said []byte
	var count int64
	r, err := a.s.Run(ctx, orchestrator.RunRequest{Source: append(source, tail...), Timeout: timeout}, func(e wire.Event) error {
		if e.Kind == wire.EventStdout {
			count += int64(len(e.Data))
			said = append(said, e.Data[:min(len(e.Data), max(0, 1<<20-len(said)))]...)
		}
		return nil
	})
	took := time.Since(began)
	if err != nil {
		return Outcome{Detail: err.Error(), Took: took}, r, count
	}
	o, told := outcomes(said)[a.id]
	// An end of the session by a limit overrules what was said before: a watch looks
	// now and then, and may come after the last word.
	if ended := r.Cause == sandbox.MemoryOut || r.Cause == sandbox.ProcessOut || r.Cause == sandbox.DiskOut; !told || ended && o.OK {
		o = Outcome{Ran: true, Step: "run", Sign: "cause:" + string(r.Cause), Detail: r.Detail}
	}
	o.Took = took
	return o, r, count
}

func (a *limitAttempt) plain(ctx context.Context) Outcome {
	o, _, _ := a.run(ctx, limitsRun, "")
	return o
}

// flood counts what comes out, whatever the attempt says.
func (a *limitAttempt) flood(ctx context.Context) Outcome {
	o, r, count := a.run(ctx, limitsRun, "")
	switch {
	case !o.Ran && o.Detail != "" && r.Run == "":
		return o
	case count > 4*a.limits.OutputKept:
		return Outcome{Ran: true, OK: true, Seen: SeenYes, Detail: fmt.Sprintf("%d bytes came, %d are to be kept", count, a.limits.OutputKept), Took: o.Took}
	case r.Cause == sandbox.OK && r.Stdout.Dropped > 0:
		return Outcome{
			Ran: true, Step: "count", Sign: "absent", Seen: SeenNo, Took: o.Took,
			Detail: fmt.Sprintf("%d bytes came and %d were dropped", count, r.Stdout.Dropped),
		}
	}
	return Outcome{Ran: true, Step: "run", Sign: "cause:" + string(r.Cause), Detail: r.Detail, Seen: SeenNo, Took: o.Took}
}

// beatName is the file of a heartbeat in a workspace.
const beatName = "brig-selftest-beat"

func (a *limitAttempt) beats() int64 {
	info, err := os.Lstat(filepath.Join(a.dir, beatName))
	if err != nil {
		return 0
	}
	return info.Size()
}

// survived tells whether a heartbeat goes on after its end. It must have been heard
// before, or silence would say nothing.
func (a *limitAttempt) survived(took time.Duration) Outcome {
	o := Outcome{Ran: true, Seen: SeenNone, Took: took}
	before := a.beats()
	if a.posture.Detached || before == 0 {
		o.Step, o.Sign = "beat", "unobservable"
		if o.Detail = "no heartbeat was seen before the end"; a.posture.Detached {
			o.Detail = "the session's files are not on this machine, so nothing outside can see a heartbeat"
		}
		return o
	}
	// On a busy machine a run is answered before the last process has met its end.
	after, ends := before, time.Now().Add(beatEnds)
	for {
		last := after
		time.Sleep(beatTime)
		if after = a.beats(); after == last {
			break
		}
		if time.Now().After(ends) {
			o.OK, o.Seen, o.Detail = true, SeenYes, fmt.Sprintf("%d beats in %s after the end", after-before, beatEnds)
			return o
		}
	}
	o.Step, o.Sign, o.Seen, o.Detail = "beat", "absent", SeenNo, fmt.Sprintf("the heartbeat ended after %d beats", before)
	return o
}

// spin goes on for longer than anybody waits, whatever asks it to end.
const spin = `
deaf()
ends = time.monotonic() + 5
while time.monotonic() < ends:
    pass
`

// surviveTimeout starts a heartbeat and runs out of time; the run's own end is the
// attempt on the wall clock. Where a busy machine had no time for a single beat, it
// gets more once.
func (a *limitAttempt) surviveTimeout(ctx context.Context) (tree, clock Outcome) {
	tree, clock = a.outOfTime(ctx, limitsTimeout)
	if clock.Ran && a.beats() == 0 && !a.posture.Detached {
		tree, clock = a.outOfTime(ctx, 4*limitsTimeout)
	}
	return tree, clock
}

func (a *limitAttempt) outOfTime(ctx context.Context, timeout time.Duration) (tree, clock Outcome) {
	began := time.Now()
	o, r, _ := a.run(ctx, timeout, spin)
	took := time.Since(began)
	clock = Outcome{Ran: r.Run != "", Took: took, Step: "run", Sign: "cause:" + string(r.Cause), Seen: SeenNo, Detail: r.Detail}
	if !clock.Ran {
		clock.Detail = o.Detail
		return o, clock
	}
	if r.Elapsed > timeout+limitsPatience {
		clock.OK, clock.Seen, clock.Detail = true, SeenYes, fmt.Sprintf("it ran for %s with a time of %s", r.Elapsed.Round(time.Millisecond), timeout)
	}
	return a.survived(took), clock
}

// surviveClose starts a heartbeat and closes the session.
func (a *limitAttempt) surviveClose(ctx context.Context, end func() error) Outcome {
	began := time.Now()
	if o, r, _ := a.run(ctx, limitsRun, ""); r.Run == "" {
		return o
	}
	if err := end(); err != nil {
		return Outcome{Ran: true, Step: "close", Sign: "exception:close", Detail: err.Error(), Took: time.Since(began)}
	}
	return a.survived(time.Since(began))
}
