package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// sessionBound is how long closing a session may take: its instance and a little.
const sessionBound = closeBound + 2*time.Second

// Session is one live interpreter with its workspace. It runs one thing at a
// time, first come first served, and survives the loss of its instance: the
// next run starts in a fresh one, and its result says so. All methods may be
// called concurrently.
type Session struct {
	o       *Orchestrator
	spec    launch // as everything up to queue, set by Open and constant from then on
	home    home
	files   *workspace.Workspace
	id      string
	creator string // set with spec, as created
	created time.Time
	queue   *queue // for the interpreter

	life context.Context // ends when Close begins
	end  context.CancelFunc
	work sync.WaitGroup // runs, and closing of earlier instances; Close waits for it

	mu      sync.Mutex
	state   State              // guarded by mu, as everything below
	bound   bound              // the latest instance
	loss    string             // why the latest instance is gone
	closing bool               // Close was called
	retired chan struct{}      // closed when the instance before the next one is gone
	active  context.CancelFunc // interrupts the run that has the interpreter; nil: none has
	current wire.RunID         // the run that has the interpreter; empty: none has
	runs    int                // that were begun
	left    []error            // what retired instances left behind
	expiry  expiry             // when it ends by itself
	record  record             // what the store knows of it
	lost    *lostInstance      // without a connection, and may live; nil: there is none
	note    string             // see Note
	passing bool               // set with spec: nothing runs in it after its one run
	renewed bool               // a fresh instance was started for a run that did not begin
	missed  string             // why the variables of earlier runs are gone; the next run says so
	filled  bool               // an instance ended because the workspace was over its limit
	mirror  *mirror            // of the latest instance; nil: it sees the host's workspace itself
	tables  tables             // the datasets

	renewing sync.Mutex // one Renew at a time; taken before mu

	gone     chan struct{} // closed when the session is
	closeErr error         // set before gone is closed
}

// move makes a transition; the caller holds mu.
func (s *Session) move(e event) {
	to, ok := next(s.state, e)
	if !ok {
		panic(fmt.Sprintf("BUG: session in state %s met %s", s.state, e))
	}
	if s.state != to {
		s.state = to
		s.changed()
	}
}

// State is where the session stands now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice()
	return s.state
}

// notice finds out that the instance went away while nothing ran; the caller holds mu.
func (s *Session) notice() {
	if s.state != StateIdle {
		return
	}
	select {
	case <-s.bound.instance.Done():
		s.move(eventLost)
		s.loss = "its instance had ended"
		e := s.bound.instance.Cause()
		if e.Detail != "" {
			s.loss += ": " + e.Detail
		}
		s.filled = s.filled || e.Cause == sandbox.DiskOut
		s.part(s.bound.instance)
	default:
	}
}

// retire closes an instance that will take no further run, beside whatever
// comes next; the caller holds mu. The next instance waits for it.
func (s *Session) retire(i sandbox.Instance) {
	done := make(chan struct{})
	s.retired = done
	s.work.Go(func() {
		defer close(done)
		s.dispose(i)
	})
}

// Workspace is the session's files, open until Close. Asking for it counts as a
// use of the session, what is done with it does not.
func (s *Session) Workspace() *workspace.Workspace {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry.used = time.Now()
	return s.files
}

// Posture is what the latest instance enforces.
func (s *Session) Posture() sandbox.Posture { return s.latest().posture }

// Resolution is how the latest instance's backend was chosen.
func (s *Session) Resolution() Resolution { return s.latest().resolution }

func (s *Session) latest() bound {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Interrupt asks the run that has the interpreter to end: softly, and by force
// if it still runs after the grace. It does not wait for the end, a second call
// changes nothing, and runs that wait are left alone. sandbox.ErrNotRunning: no
// run has the interpreter.
func (s *Session) Interrupt(context.Context) error {
	s.mu.Lock()
	interrupt := s.active
	s.mu.Unlock()
	if interrupt == nil {
		return sandbox.ErrNotRunning
	}
	interrupt()
	return nil
}

// Reset gives the session a fresh namespace when its turn comes. now interrupts the
// run that has the interpreter when Reset is called. Where the settings in force do
// not allow the session's instance any more, it gets another one.
func (s *Session) Reset(ctx context.Context, now bool) error {
	release, err := s.take(ctx, func() {
		if now {
			_ = s.Interrupt(ctx) // nothing runs: then there is nothing to wait for
		}
	})
	if err != nil {
		return fmt.Errorf("reset the session: %w", s.closedError(err))
	}
	defer release()
	if err := s.giveUp(ctx); err != nil {
		return fmt.Errorf("reset the session: %w", err)
	}
	fresh, err := s.ensure(ctx)
	if err != nil {
		return err
	}
	if fresh {
		s.forgive()
		return nil
	}
	for until := time.Now().Add(closeBound); ; {
		_, err := s.latest().instance.Call(ctx, wire.Control{Op: wire.OpReset}, nil, nil)
		var refused *wire.CallError
		if err == nil {
			s.forgive()
			return nil
		}
		if !errors.As(err, &refused) || refused.Code != wire.CodeBusy || time.Now().After(until) {
			return fmt.Errorf("reset the session: %w", err)
		}
		// Another caller has the variables listed, which takes no turn and not long.
		select {
		case <-ctx.Done():
			return fmt.Errorf("reset the session: %w", context.Cause(ctx))
		case <-time.After(interruptAgain):
		}
	}
}

// Variables lists the user's names. It does not wait: while a run has the
// interpreter it is ErrBusy, and ErrNoInterpreter when the instance is gone.
func (s *Session) Variables(ctx context.Context) (wire.VariablesBody, error) {
	s.mu.Lock()
	s.notice()
	state, instance := s.state, s.bound.instance
	defer s.use()()
	s.mu.Unlock()
	var body wire.VariablesBody
	switch state {
	case StateIdle:
	case StateLost:
		return body, fmt.Errorf("list variables: %w", ErrNoInterpreter)
	case StateClosing, StateClosed:
		return body, fmt.Errorf("list variables: %w", s.closedError(ErrClosed))
	case StateNew, StateStarting, StateRunning, StateInterrupting, StateReplacing:
		return body, fmt.Errorf("list variables: %w", ErrBusy)
	}
	reply, err := instance.Call(ctx, wire.Control{Op: wire.OpVariables}, nil, nil)
	var refused *wire.CallError
	if errors.As(err, &refused) && refused.Code == wire.CodeBusy {
		return body, fmt.Errorf("list variables: %w", ErrBusy)
	}
	if err != nil {
		return body, fmt.Errorf("list variables: %w", err)
	}
	if err := json.Unmarshal(reply.Body, &body); err != nil {
		return wire.VariablesBody{}, fmt.Errorf("list variables: %w", err)
	}
	return body, nil
}

// take waits for the interpreter and counts the caller in; release gives it back.
// joined is called once the caller has its place in the queue.
func (s *Session) take(ctx context.Context, joined func()) (release func(), err error) {
	if err := s.queue.enter(ctx, joined); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		s.queue.leave()
		return nil, errSentAway
	}
	s.work.Add(1)
	unused := s.use()
	return func() {
		unused()
		s.queue.leave()
		s.work.Done()
	}, nil
}

// forgive forgets that variables are gone: whoever asked for a fresh namespace has it.
func (s *Session) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed, s.renewed = "", false
}

// ensure makes sure that an instance is there, and tells whether it had to start a
// fresh one; why an earlier one is gone is remembered for the next run that begins.
// The caller has the interpreter.
func (s *Session) ensure(ctx context.Context) (fresh bool, err error) {
	s.mu.Lock()
	s.notice()
	if s.closing || s.state != StateLost {
		defer s.mu.Unlock()
		if s.closing {
			return false, ErrClosed
		}
		return false, nil
	}
	s.move(eventReplace)
	retired := s.retired
	s.mu.Unlock()

	// Two instances never share a workspace: the earlier one goes first.
	same := false
	select {
	case <-retired:
		same, err = s.replace(ctx)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.life.Done():
		err = ErrClosed
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.move(eventFail)
		return false, err
	}
	if same {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed, s.renewed = s.loss, true
	return true, nil
}

// launch gives the session a fresh instance. Close ends it as well.
func (s *Session) launch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	b, err := s.o.launch(ctx, s.spec)
	if err != nil {
		return err
	}
	return s.receive(b)
}

// receive makes a bound instance the session's own.
func (s *Session) receive(b bound) error {
	if err := s.approve(b); err != nil {
		return errors.Join(err, closeInstance(context.Background(), b.instance))
	}
	if err := s.recordBound(b); err != nil {
		return errors.Join(err, closeInstance(context.Background(), b.instance))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		// Close has looked for an instance already.
		s.retire(b.instance)
		return ErrClosed
	}
	s.move(eventReady)
	if b.posture.Detached {
		b.limits.Workspace = b.limits.WorkspaceInMemory()
	}
	s.bound, s.mirror = b, nil
	if b.posture.Detached {
		s.mirror = newMirror(s.files, b.instance)
	}
	if s.expiry.timer == nil {
		s.watchExpiry()
	}
	return nil
}
