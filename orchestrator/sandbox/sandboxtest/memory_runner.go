package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// memoryRunner is the other end of the wire: a runner without Python. It
// speaks the real protocol, so everything that brig does with a connection is
// tested against it; what it runs are the steps of a Program.
type memoryRunner struct {
	files  *workspace.Workspace // for calls
	root   *os.Root             // for what programs do
	table  *table
	memory int64
	stuck  bool             // it ignores interrupts
	lasts  bool             // it has a lease: the end of a connection is not its end
	lie    func(*wire.Exit) // changes what it reports; nil: it is honest

	ctx      context.Context // ends with the runner
	cancel   context.CancelFunc
	work     sync.WaitGroup
	oomKills atomic.Int64

	mu      sync.Mutex
	link    *link // the latest
	bound   wire.ControlArgs
	ran     bool // a run has begun
	worker  *process
	jobs    chan *cell
	current *cell
	ending  bool // the current cell has run its last step
	lateRun wire.RunID
	tables  []wire.Table
	late    map[uint32]int64 // sent between two runs
	ended   bool             // a Once run is over
}

// link is one connection of a runner.
type link struct {
	mux    *wire.Mux
	ctx    context.Context // ends with it; for sends
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing more is read from it

	hello wire.Hello // set by its first message, before any other is handled
}

// newMemoryRunner builds a runner in the given workspace; start, serve and stop run it.
func newMemoryRunner(dir string, memory int64) (*memoryRunner, error) {
	files, err := workspace.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", joinCloser(err, files))
	}
	h := &memoryRunner{files: files, root: root, table: newTable(), memory: memory, late: make(map[uint32]int64)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

func joinCloser(err error, c io.Closer) error {
	_ = c.Close() // nothing was written yet
	return err
}

// connect makes a connection; serve reads from it.
func (h *memoryRunner) connect(r io.Reader, w io.Writer, closeTransport func() error) *link {
	l := &link{over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(h.ctx)
	l.mux = wire.NewMux(r, w, wire.MuxOptions{
		Role: wire.RoleRunner, Message: func(m wire.Message) error { return h.message(l, m) }, Close: closeTransport,
	})
	return l
}

func (h *memoryRunner) start() {
	h.table.spawn("supervisor", "", func(p *process) { <-p.killed })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.startWorker()
}

// serve reads from l until it ends.
func (h *memoryRunner) serve(l *link) {
	h.mu.Lock()
	h.link = l
	h.mu.Unlock()
	_ = l.mux.Serve() // how the connection ended is for brig's side to say
	l.cancel()
	_ = l.mux.Close() // pipes in memory close without an error
	close(l.over)
}

// stop ends every process. No connection is served any more.
func (h *memoryRunner) stop() {
	h.cancel()
	h.table.close()
	h.work.Wait()
	_ = h.root.Close()
	_ = h.files.Close()
}

// spoken is what the end of a connection means to who was speaking: with a
// lease the program goes on, and nobody hears it.
func (h *memoryRunner) spoken(err error) error {
	if h.lasts {
		return nil
	}
	return err
}

func (h *memoryRunner) output(l *link, stream uint32, p []byte) error {
	return h.spoken(l.mux.Output(stream, p))
}

// message handles one control message on the goroutine of Serve.
func (h *memoryRunner) message(l *link, m wire.Message) error {
	switch m := m.(type) {
	case wire.Hello:
		l.hello = m
		return l.mux.Post(h.ready())
	case wire.RunMessage:
		code, err := l.mux.Accept(m.Code)
		if err != nil {
			return err
		}
		h.work.Go(func() { h.begin(l, m, code) })
		return nil
	case wire.CallMessage:
		var in io.Reader = bytes.NewReader(nil)
		if m.In != 0 {
			stream, err := l.mux.Accept(m.In)
			if err != nil {
				return err
			}
			in = stream
		}
		h.work.Go(func() { h.call(l, m, in) })
		return nil
	}
	return fmt.Errorf("a runner was sent a %T", m)
}

// ready is honest about what this is.
func (h *memoryRunner) ready() wire.Ready {
	sum := sha256.Sum256([]byte("sandboxtest in-memory runner"))
	return wire.Ready{
		Version: wire.Version, Runner: hex.EncodeToString(sum[:]), Python: "none", Implementation: "sandboxtest",
		Observed: wire.Observed{
			Dumpable: -1, Status: map[string]string{}, Interfaces: []string{},
			Rlimits: map[string]wire.Rlimit{}, Attempts: map[string]string{},
		},
	}
}

// startWorker starts a fresh interpreter. h.mu is held.
func (h *memoryRunner) startWorker() {
	jobs := make(chan *cell)
	vars := newNamespace()
	h.jobs = jobs
	h.worker = h.table.spawn("worker", "", func(p *process) {
		for {
			select {
			case <-p.killed:
				return
			case c := <-jobs:
				if !h.serveCell(p, c, vars) {
					return
				}
			}
		}
	})
}

// serveCell runs one cell and tells whether the interpreter lives on.
func (h *memoryRunner) serveCell(p *process, c *cell, vars *namespace) bool {
	defer close(c.over)
	if c.op != nil {
		c.op(vars)
		return true
	}
	c.proc, c.vars = p, vars
	started := time.Now()
	c.ended = c.execute(c.source)
	if c.run.Once {
		c.finishProgram()
	}
	c.elapsed = max(time.Since(started), 1)
	return c.ended.state == wire.StateKept
}

// begin receives the source of a run, hands it to the worker and reports its end.
func (h *memoryRunner) begin(l *link, m wire.RunMessage, code *wire.RecvStream) {
	source, err := io.ReadAll(code)
	if err != nil && int64(len(source)) < m.Size {
		// brig gave the run up, or is gone.
		source = nil
	}
	c := &cell{
		run:  wire.Run{ID: m.ID, Filename: m.Filename, Argv: m.Argv, Once: m.Once},
		host: h, link: l, source: source, soft: make(chan struct{}, 1), over: make(chan struct{}), told: make(chan struct{}),
	}
	h.mu.Lock()
	log := &runLog{root: h.root, path: ".brig/log/" + string(m.ID) + ".log", limit: l.hello.Bounds.Logged}
	c.stdout = newBounded(l.hello.Bounds.Kept, log, func(p []byte) error { return h.output(l, wire.StreamStdout, p) })
	c.stderr = newBounded(l.hello.Bounds.Kept, log, func(p []byte) error { return h.output(l, wire.StreamStderr, p) })
	if l.mux.Send(wire.StartedMessage{Run: m.ID}) != nil {
		h.mu.Unlock()
		return
	}
	h.current, h.ending, h.ran = c, false, true
	worker, jobs := h.worker, h.jobs
	h.mu.Unlock()

	select {
	case jobs <- c:
	case <-worker.gone:
		c.ended = killed()
		close(c.over)
	case <-h.ctx.Done():
		return
	}
	<-c.over
	h.end(c, log)
}

// end closes the account of a run and sends its exit. Under h.mu, so that what
// a background child writes is either the run's or late.
func (h *memoryRunner) end(c *cell, log *runLog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
	defer close(c.told)
	exit := wire.Exit{
		Run: c.run.ID, Outcome: c.ended.outcome, Status: c.ended.status, Signal: c.ended.signal,
		Exception: c.ended.exception, MemoryHeld: c.ended.memory, OOMKills: c.oomKills, Displays: c.shown, Elapsed: c.elapsed,
		Hard: c.hard, Swept: c.swept, State: c.ended.state,
	}
	if c.hard {
		exit.Outcome, exit.Signal, exit.State, exit.Exception = wire.OutcomeSignal, 9, wire.StateLost, nil
		exit.Status = 0
	}
	var err error
	if exit.Stdout, err = c.stdout.finish(h.gap(c.link, c.run.ID, Stdout)); err != nil {
		return
	}
	if exit.Stderr, err = c.stderr.finish(h.gap(c.link, c.run.ID, Stderr)); err != nil {
		return
	}
	if exit.Stdout.Dropped+exit.Stderr.Dropped > 0 {
		exit.Log = log.finish()
	}
	switch {
	case c.run.Once:
		exit.State, h.ended = wire.StateEnded, true
	case exit.State == wire.StateLost:
		<-h.worker.gone
		h.startWorker()
	}
	h.current = nil
	h.lateRun = c.run.ID
	clear(h.late)
	if h.lie != nil {
		h.lie(&exit)
	}
	_ = c.link.mux.Send(exit) // fails when the connection has ended: brig has seen that
}

func (h *memoryRunner) gap(l *link, run wire.RunID, name string) func(int64) error {
	return func(n int64) error { return h.spoken(l.mux.Send(wire.GapMessage{Run: run, Name: name, Bytes: n})) }
}

// interrupt ends the current run softly or by force.
func (h *memoryRunner) interrupt(a wire.ControlArgs) error {
	if h.stuck {
		return nil
	}
	h.mu.Lock()
	c := h.current
	if c == nil || c.run.ID != a.Run || h.ending {
		h.mu.Unlock()
		return &wire.CallError{Code: wire.CodeNotRunning, Message: "that run is not running"}
	}
	worker := h.worker
	if a.Level == wire.Hard {
		c.hard = true
	}
	h.mu.Unlock()
	if a.Level == wire.Hard {
		swept := h.table.kill(func(p *process) bool { return p.name != "supervisor" })
		h.mu.Lock()
		c.swept += max(0, swept-1)
		h.mu.Unlock()
		return nil
	}
	if a.Sweep {
		swept := h.table.kill(func(p *process) bool { return p != worker && p.run == a.Run })
		h.mu.Lock()
		c.swept += swept
		h.mu.Unlock()
	}
	select {
	case c.soft <- struct{}{}:
	default: // one is pending already
	}
	return nil
}

// write is a background child's output: of the run that is active, or late.
func (h *memoryRunner) write(stream uint32, p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil {
		out := h.current.stdout
		if stream == wire.StreamStderr {
			out = h.current.stderr
		}
		_, _ = out.Write(p)
		return
	}
	room := max(0, lateBound-h.late[stream])
	kept := p[:min(int64(len(p)), room)]
	h.late[stream] += int64(len(kept))
	_ = h.link.mux.Output(stream, kept)
	if lost := len(p) - len(kept); lost > 0 {
		_ = h.gap(h.link, h.lateRun, streamName(stream))(int64(lost))
	}
}

func streamName(stream uint32) string {
	if stream == wire.StreamStderr {
		return Stderr
	}
	return Stdout
}
