package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// Both directions may be in the middle of a frame when a conversation is taken
// up again. So each side sends a mark that no frame begins with, and the other
// drops everything before it.
//
// brig's mark is a fresh nonce and a proof that it knows the secret of Hello. The
// runner's mark is an answer to that nonce, which is what makes it safe to look
// for it in bytes that user code may have chosen: whatever was printed, and
// whatever is known of earlier marks, it could not hold a nonce of now.
const (
	brigMark   = "\xb7\x17brig resumes\r\n"
	runnerMark = "\xb7\x18brig resumed\r\n"
	nonceSize  = 32
	brigSize   = len(brigMark) + nonceSize + sha256.Size
	runnerSize = len(runnerMark) + sha256.Size

	// maxStale bounds the bytes of the old conversation before the runner's mark.
	// What can be under way is what a runner queues and what pipes and engines buffer.
	maxStale = 64 << 20
)

// Resumed is what a runner says when its conversation is taken up again.
type Resumed struct {
	// Ready was observed anew, with user code's processes about: see Observed.
	Ready Ready
	// Run is still running, "" for none. Its output is dropped from here on; what it
	// prints is in its log file. Interrupt ends it, Finish waits for that, and until
	// then Run answers ErrBusy.
	Run RunID
}

// ResumedMessage is the runner's first message of a conversation that was taken up again.
type ResumedMessage struct {
	Ready Ready `json:"ready"`
	Run   RunID `json:"run,omitempty"`
	Ended bool  `json:"ended,omitempty"` // a Run.Once is over
}

func (ResumedMessage) messageType() string { return "resumed" }

func (m ResumedMessage) check() error {
	if m.Run != "" {
		if err := badRun(m.Run); err != nil {
			return err
		}
	}
	if m.Ready.Version != Version {
		return fmt.Errorf("ready of version %d", m.Ready.Version)
	}
	return m.Ready.check()
}

// NewSecret returns a secret for Hello.Resume.
func NewSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return hex.EncodeToString(secret)
}

// Resume takes up the conversation of a runner that was greeted with a Lease and
// that secret, on a transport of its own to the same runner. Before it is called
// the runner has to be sent SIGUSR1 from outside its process namespace; without
// that it takes the mark for a frame of the old conversation and may end.
//
// What the old conversation left half done is undone: calls are forgotten, their
// streams and files too. o.Close is needed where r and w cannot be closed. On an
// error the transport is closed: a runner that does not answer (it has another
// secret, or none) waits on until its lease ends, and may be tried again with a
// new signal and a new transport. The error is a *LostError where the transport
// ended, a *ProtocolError where what came was no runner of ours, and otherwise
// the cause of ctx, which is what bounds the wait.
func Resume(ctx context.Context, r io.Reader, w io.Writer, secret string, o PeerOptions) (*Peer, Resumed, error) {
	if o.Close == nil {
		o.Close = func() error { return errors.Join(closeIfCloser(w), closeIfCloser(r)) }
	}
	buffered := bufio.NewReaderSize(r, headerSize+MaxPayload)
	if err := exchange(ctx, buffered, w, secret, o.Close); err != nil {
		return nil, Resumed{}, fmt.Errorf("resume: %w", err)
	}
	p := newPeer(buffered, w, o)
	p.hello, p.resuming = true, make(chan Resumed, 1)
	p.limit = o.DisplayBytes
	if p.limit == 0 {
		p.limit = MaxBundle
	}
	p.serve()
	var err error
	select {
	case resumed := <-p.resuming:
		return p, resumed, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.mux.Done():
		err = p.lost()
	}
	return nil, Resumed{}, errors.Join(fmt.Errorf("resume: %w", err), p.Close())
}

// exchange sends brig's mark and reads up to the end of the runner's. The mark is
// sent beside, because the runner may not read before what it has to say is taken
// off it. On an error the transport is closed.
func exchange(ctx context.Context, r *bufio.Reader, w io.Writer, secret string, closeTransport func() error) (err error) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	done := make(chan error, 2)
	go func() { done <- orLostError(w.Write(markOfBrig(secret, nonce))) }()
	go func() { done <- discardThrough(r, markOfRunner(secret, nonce)) }()
	under := 2 // way
	for under > 0 && err == nil {
		select {
		case err = <-done:
			under--
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, closeTransport())
	patience := time.NewTimer(closeGrace)
	defer patience.Stop()
	for ; under > 0; under-- {
		select {
		case <-done:
		case <-patience.C:
			return errors.Join(err, errUnblocked)
		}
	}
	return err
}

func orLostError(_ int, err error) error {
	if err != nil {
		return &LostError{Err: fmt.Errorf("write the mark: %w", err)}
	}
	return nil
}

func markOfBrig(secret string, nonce []byte) []byte {
	return append(append([]byte(brigMark), nonce...), proof(secret, "brig", nonce)...)
}

func markOfRunner(secret string, nonce []byte) []byte {
	return append([]byte(runnerMark), proof(secret, "runner", nonce)...)
}

func proof(secret, side string, nonce []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(side))
	h.Write(nonce)
	return h.Sum(nil)
}

// discardThrough reads r through the first occurrence of mark and nothing beyond it.
func discardThrough(r *bufio.Reader, mark []byte) error {
	for read := 0; ; {
		if _, err := r.Peek(len(mark)); err != nil {
			return &LostError{Err: err}
		}
		b, _ := r.Peek(r.Buffered())
		at := bytes.Index(b, mark)
		n := at + len(mark)
		if at < 0 {
			n = len(b) - len(mark) + 1 // the rest may be its beginning
		}
		if read += n; read > maxStale {
			return violation("no mark of the runner in %d bytes", maxStale)
		}
		if _, err := r.Discard(n); err != nil {
			panic("BUG: bytes that were peeked at left the buffer: " + err.Error())
		}
		if at >= 0 {
			return nil
		}
	}
}

// Answer is the runner's half of Resume, for a runner written in Go: it discards r
// up to a mark by a brig that knows the secret, and writes the runner's own. After
// it, a new Mux with RoleRunner sends a ResumedMessage first. r is not read beyond
// the mark.
func Answer(r io.Reader, w io.Writer, secret string) error {
	window := make([]byte, 0, brigSize)
	next := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, next); err != nil {
			return fmt.Errorf("wait for a mark: %w", err)
		}
		if len(window) == brigSize {
			window = append(window[:0], window[1:]...)
		}
		window = append(window, next[0])
		if len(window) < brigSize || string(window[:len(brigMark)]) != brigMark {
			continue
		}
		nonce := window[len(brigMark):][:nonceSize]
		if !hmac.Equal(window[len(brigMark)+nonceSize:], proof(secret, "brig", nonce)) {
			continue
		}
		if _, err := w.Write(markOfRunner(secret, nonce)); err != nil {
			return fmt.Errorf("answer a mark: %w", err)
		}
		return nil
	}
}

// onResumed begins the conversation anew, on the reader goroutine. p.mu is held.
func (p *Peer) onResumed(m ResumedMessage) error {
	if p.resuming == nil || p.greeted {
		return violation("resumed, which nobody asked for")
	}
	p.greeted, p.ended = true, m.Ended
	if m.Run != "" {
		p.current = &activeRun{id: m.Run, foreign: true, started: true, over: make(chan struct{})}
		p.running, p.lastID = true, m.Run
	}
	p.resuming <- Resumed{Ready: m.Ready, Run: m.Run}
	return nil
}

// Finish waits for the end of the run that was still running at Resume, and
// returns its exit; the output was dropped. It may be called again, also after
// another run. The end of ctx ends the wait, not the run.
func (p *Peer) Finish(ctx context.Context, run RunID) (Exit, error) {
	p.mu.Lock()
	a := p.foreign
	if c := p.current; c != nil && c.foreign {
		a = c
	}
	p.mu.Unlock()
	if a == nil || a.id != run {
		return Exit{}, ErrNotRunning
	}
	select {
	case <-a.over:
		return *a.exit, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for the run: %w", context.Cause(ctx))
	case <-p.mux.Done():
	}
	select { // its exit may have been the last that came
	case <-a.over:
		return *a.exit, nil
	default:
		return Exit{}, p.lost()
	}
}
