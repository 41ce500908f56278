package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// runOptions are the flags of "brig run".
type runOptions struct {
	code     string
	hasCode  bool
	backend  choice
	tier     choice
	image    string
	timeout  timeoutFlag
	files    []string
	out      string
	replace  bool
	json     bool
	quiet    bool
	noResult bool
	accept   bool
	session  string
	join     bool // also where an agent opened it
	args     []string
	dash     int // position of "--" among args, or -1
}

func (p *program) runCommand() *cobra.Command {
	o := runOptions{backend: newBackendFlag(), tier: newTierFlag()}
	c := &cobra.Command{
		Use:   "run [flags] [FILE|-] [-- ARGS]",
		Short: "Run Python code, contained",
		Long: `Run Python code from a file, from standard input or from -c, contained.

The code's own standard input is empty: data reaches it as files, with --file.
What the code prints comes out as it is; the value of its last expression is
printed as in a notebook; figures become files and are named. One line on
standard error says what really ran the code. If that is less than what was
configured, a line before the output says so and what to do about it.

Where a brig runs that stays (brig up) and has the same settings, it runs the code.
With --session the code runs in a session that stays there, with its variables and
files.

What --out brings back replaces nothing that is there already, because the code
chooses the names; --overwrite lets it. What cannot be brought back is named.

The exit status is the program's own; see: brig help exit-codes`,
		Example: `  brig run -c 'print(6*7)'
  brig run --file sales.csv --out results report.py -- --year 2026
  echo 'print(6*7)' | brig run
  brig run --backend host --timeout 5s --json program.py`,
		RunE: func(c *cobra.Command, args []string) error {
			o.hasCode, o.args, o.dash = c.Flags().Changed("code"), args, c.ArgsLenAtDash()
			return p.run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.VarP(once("-c", &word{value: &o.code, flag: "code", empty: true}), "code", "c", "run this `CODE`")
	f.Var(once("--backend", &o.backend), "backend", "run in this `BACKEND` and nowhere else: docker or host")
	f.Var(once("--tier", &o.tier), "tier", "`TIER` of the container's image: core (standard library), standard (numpy, pandas, matplotlib…) or full (scipy, scikit-learn, polars… too)")
	f.Var(once("--image", &word{value: &o.image, flag: "image"}), "image", "run in your own image, `REF`, which is on the engine and has Python 3.8 or later")
	o.backend.complete(c)
	o.tier.complete(c)
	f.Var(once("--session", &word{value: &o.session, flag: "session"}), "session", "run in the session `NAME` of the brig that stays, which is opened if there is none of that name")
	f.BoolVar(&o.join, "join", false, "run in that session also where an agent opened it, which then sees what the code leaves there")
	p.completeSessionFlag(c)
	f.Var(once("--timeout", &o.timeout), "timeout", "limit of `TIME`, such as 5s or 2m")
	f.StringArrayVar(&o.files, "file", nil, "put the file or directory `SRC[:NAME]` into the workspace; may be repeated")
	f.Var(once("--out", &word{value: &o.out, flag: "out"}), "out", "bring back what the code created or changed, and figures, into `DIR`; what is there already is not replaced")
	f.BoolVar(&o.replace, "overwrite", false, "let --out replace files that are there already")
	f.BoolVar(&o.json, "json", false, "print one JSON object with everything, and nothing else")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no line about what ran the code (a weaker containment than configured is still announced)")
	f.BoolVar(&o.noResult, "no-result", false, "do not print the value of the last expression")
	f.BoolVar(&o.accept, "accept-uncontained", false, "where neither files nor system calls can be confined: accept that, from now on and for this machine")
	return c
}

// run executes one program. Everything that can be wrong with what was asked is
// looked at before anything starts.
func (p *program) run(parent context.Context, o runOptions) (err error) {
	var inline *string
	if o.hasCode {
		inline = &o.code
	}
	src, err := p.readSource(inline, o.args, o.dash)
	if err != nil {
		return err
	}
	settings, err := p.loadSettings()
	if err != nil {
		return err
	}
	if err := o.timeout.check(settings.Config); err != nil {
		return err
	}
	kind := cmp.Or(sandbox.Kind(o.backend.value), settings.Config.Execution.Backend)
	if o.image != "" && kind != sandbox.Docker {
		where := "execution.backend is " + string(kind)
		if o.backend.value != "" {
			where = "--backend " + o.backend.value + " is asked for"
		}
		return usage("brig run --backend docker --image "+o.image, "only a container can run an image, and %s", where)
	}
	if err := chooseImage(&settings.Config, o.tier.value, o.image); err != nil { // of the copy for this one run
		return err
	}
	limits := settings.Config.BaseFor(kind).Limits.WithDefaults()
	up, err := planUploads(o.files, bounds{file: limits.FileSize, total: limits.Workspace})
	if err != nil {
		return err
	}
	out, err := openOut(o.out, o.replace)
	if err != nil {
		return err
	}

	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	e := &execution{p: p, o: o, src: src, uploads: up, out: out, signals: sig, limits: limits, longest: settings.Config.Workspace.ExecTimeout}
	if handed, err := e.handOver(settings); handed || err != nil {
		return err
	}
	a, err := p.assemble(settings, assembleOptions{silent: o.json})
	if err != nil {
		return err
	}
	defer func() { err = p.closeAfter(err, a.close(parent)) }()
	if a.audit, a.audited, err = openAudit(sig.ctx, settings, nil); err != nil {
		return err
	}
	for _, text := range a.audited.Problems {
		p.tui.warn(escapeLine("the audit log: " + text))
	}
	actor := p.self("run")

	open := func() (*orchestrator.Session, error) {
		return a.orchestrator.Open(sig.ctx, orchestrator.SessionOptions{
			Backend: sandbox.Kind(o.backend.value), Timezone: p.timezone(), Locale: p.locale(),
		})
	}
	session, err := open()
	if unverified(err) {
		var tested bool
		if tested, err = p.verify(sig.ctx, a, settings, o.json, err); tested {
			session, err = open()
		}
	}
	if o.accept && unaccepted(err) {
		if err = consented(sig.ctx, a.audit, actor); err != nil {
			return err
		}
		if e.consent, err = p.accept(settings.Paths, o.json); err == nil {
			session, err = open()
		}
	}
	a.build.done(builtFor(session, err))
	if err != nil {
		return a.refused(sig.ctx, actor, src.code, err)
	}
	v := &audited{here: here{session: session}, log: a.audit, actor: actor, code: settings.Config.Audit.Code}
	if err := v.opened(sig.ctx); err != nil {
		return errors.Join(err, session.Close(context.WithoutCancel(parent)))
	}
	e.venue = v
	return e.run()
}

// stays tells that the interpreter goes on after the run, with its variables.
func (o runOptions) stays() bool { return o.session != "" }

// errNoImage ends the drawing of a build whose image nobody runs.
var errNoImage = errors.New("the image was not built")

// builtFor tells whether a build that was drawn ended well: opening may succeed
// without, by stepping down to another backend.
func builtFor(session *orchestrator.Session, err error) error {
	if err == nil && session.Resolution().Resolved != sandbox.Docker {
		return errNoImage
	}
	return err
}

// execution is one program in one session.
type execution struct {
	p       *program
	o       runOptions
	src     source
	uploads *uploads
	out     *outDir
	venue   venue
	signals *signals
	limits  sandbox.Limits
	longest time.Duration // of a run for which no limit is given
	consent []string      // what --accept-uncontained recorded

	sink    *sink
	result  orchestrator.Result
	brought brought
	closing error // what the end of the session met; the result stands beside it
}

func (e *execution) run() (err error) {
	closed := false
	closeSession := func() error {
		if closed {
			return nil
		}
		closed = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.signals.ctx), closeTimeout)
		defer cancel()
		return e.venue.close(ctx)
	}
	defer func() { err = errors.Join(err, closeSession()) }()

	if e.venue.known() {
		e.begin()
	}
	if err := e.fits(); err != nil {
		return err
	}
	if err := e.venue.put(e.signals.ctx, e.uploads); err != nil {
		return err
	}
	figures := "."
	if e.out != nil {
		figures = e.out.dir
	}
	e.sink = newSink(e.p.tui, e.o.json, !e.o.noResult, figures, e.limits.OutputKept)
	if err := e.execute(); err != nil {
		return err
	}
	if e.out != nil {
		e.brought = e.venue.bring(e.bringing(), e.out, e.sink.figures.names)
	}
	// Closed before the answer is complete: what could not be removed belongs to it.
	e.closing = closeSession()
	return e.report()
}

// begin says what contains the code, before any of it runs.
func (e *execution) begin() {
	if e.o.json {
		return
	}
	e.p.announce(e.venue.resolution(), e.venue.posture())
	if left := e.uploads.left(); left != "" {
		e.p.tui.note("%s", escapeLine(left))
	}
}

// fits says whether the files of --file have room where the workspace is in the
// instance's memory.
func (e *execution) fits() error {
	if most := e.limits.WorkspaceInMemory(); e.venue.posture().Detached && e.uploads.bytes > most {
		return input("raise limits.memory (and limits.workspace), see: brig config show limits.memory",
			"the files given with --file are too large together: %s, and a workspace on an engine that does not see this machine's directories holds %s, a quarter of limits.memory (%s) and at most limits.workspace (%s)",
			size(e.uploads.bytes), size(most), size(e.limits.Memory), size(e.limits.Workspace))
	}
	return nil
}

// bringing bounds the way back of the files: a signal ends it, unless one has ended
// the run already.
func (e *execution) bringing() context.Context {
	if e.signals.ctx.Err() != nil {
		return context.WithoutCancel(e.signals.ctx)
	}
	return e.signals.ctx
}

// execute runs the program, with Ctrl-C wired to it for as long as it runs.
func (e *execution) execute() error {
	var asked sync.WaitGroup
	defer asked.Wait()
	e.signals.whileRunning(func() {
		asked.Go(func() {
			// What came too late to interrupt anything needs no answer.
			if errors.Is(e.venue.interrupt(e.signals.ctx), errNotBegun) {
				e.signals.cancel(errInterrupted)
			}
		})
	})
	defer e.signals.whileRunning(nil)
	carrying := newCarrying(e.p.tui.stderr, e.o.json || e.o.quiet)
	var err error
	e.result, err = e.venue.run(e.signals.ctx, orchestrator.RunRequest{
		Source: e.src.code, Filename: e.src.filename, Argv: e.src.argv, Once: !e.o.stays(),
		Timeout: time.Duration(e.o.timeout), Carrying: carrying.show,
	}, e.begin, carrying.between(e.sink.emit))
	carrying.done()
	var failed *writeError
	if errors.As(err, &failed) {
		return explainWrite(failed)
	}
	if err == nil || e.result.Cause != "" {
		err = e.sink.finish()
	}
	return err
}

// closeAfter joins what the end of brig met. Beside a result that was already told
// it is told as well, for nobody looks behind an exit code.
func (p *program) closeAfter(err, closing error) error {
	var told ended
	if closing != nil && errors.As(err, &told) {
		p.tui.warn(escapeLine(sentences(closing)))
		p.tui.hint(askDoctor)
		return err
	}
	return errors.Join(err, closing)
}

// explainWrite is what becomes of a run whose output could not be written.
func explainWrite(err *writeError) error {
	if brokenPipe(err) {
		return &failure{Code: "cancelled", Message: "the reader of brig's output went away", Exit: exitPipe, err: err, quiet: true}
	}
	return &failure{Code: "output", Message: "could not write output: " + because(err.err), Remedy: "df -h .", Exit: exitFailed, err: err}
}

// timezone and locale are the caller's: dates and text look inside as they do outside.
func (p *program) timezone() string { return p.env("TZ") }

func (p *program) locale() string {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := p.env(name); v != "" {
			return v
		}
	}
	return ""
}

func (p *program) env(name string) string {
	v, _ := p.lookup(name)
	return v
}

// rename gives what failed because of a signal the signal's own exit code. What
// could not be removed is still said.
func (s *signals) rename(err error) error {
	code, signalled := s.exit()
	var done ended
	var left *sandbox.LeftBehind
	if err == nil || !signalled || errors.As(err, &done) || errors.As(err, &left) {
		return err
	}
	return &failure{Code: "cancelled", Message: context.Cause(s.ctx).Error() + " before it was done", Exit: code, err: err}
}
