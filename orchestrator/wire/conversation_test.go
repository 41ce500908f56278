package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write testdata/*.txtar from what is seen")

// tape records both directions of a connection. What the runner wrote is kept
// in pieces, each with the number of bytes that it had been sent before.
type tape struct {
	mu     sync.Mutex
	sent   int // by brig
	frames []tapedFrame
	said   []piece // by the runner
	total  int
}

type tapedFrame struct {
	from string
	raw  []byte
}

type piece struct {
	after int
	bytes []byte
}

// frame cuts a Write, which holds whole frames.
func (c *tape) frame(from string, p []byte) {
	for len(p) > 0 {
		n := headerSize + int(binary.BigEndian.Uint32(p[8:]))
		c.frames = append(c.frames, tapedFrame{from, bytes.Clone(p[:n])})
		p = p[n:]
	}
}

// brig and runner return the writing ends.
func (c *tape) brig(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		c.mu.Lock()
		c.sent += len(p)
		c.frame("brig", p)
		c.mu.Unlock()
		return w.Write(p)
	})
}

func (c *tape) runner(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		c.mu.Lock()
		c.said = append(c.said, piece{c.sent, bytes.Clone(p)})
		c.total += len(p)
		c.frame("runner", p)
		c.mu.Unlock()
		return w.Write(p)
	})
}

func (c *tape) offset() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// conversation is a bit of everything, one step after the other. It returns the
// error of each step.
func conversation(ctx context.Context, p *Peer, step func(err error)) {
	_, err := p.Hello(ctx, testHello())
	step(err)
	converse(ctx, p, step)
}

// converse is what follows the greeting.
func converse(ctx context.Context, p *Peer, step func(err error)) {
	var got record
	run := func(r Run) {
		exit, err := p.Run(ctx, r, got.emit)
		if err == nil && exit.Run != r.ID {
			err = errors.New("the exit of another run")
		}
		step(err)
	}
	run(Run{ID: "r1", Filename: "a.py", Argv: []string{"-v"}, Source: source("out hello", "gap 12", "err oh", "show image/png 5000")})
	_, err := p.Call(ctx, Control{Op: OpPing}, nil, nil)
	step(err)
	_, err = p.Call(ctx, Control{Op: OpPut, Args: ControlArgs{Path: "data.csv"}}, strings.NewReader("a,b\n1,2\n"), nil)
	step(err)
	var out bytes.Buffer
	_, err = p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "data.csv"}}, nil, &out)
	if err == nil && out.String() != "a,b\n1,2\n" {
		err = fmt.Errorf("the file came back as %q", out.String())
	}
	step(err)
	run(Run{ID: "r2", Source: source("raise ValueError")})
	run(Run{ID: "r3", Once: true, Source: source("out bye", "exit 3")})
}

// recordConversation plays it once for real; ends holds how much the runner had said when each step was over.
func recordConversation(t *testing.T) (c *tape, ends []int) {
	t.Helper()
	pp := newPipes(t)
	c = &tape{}
	x := startRunner(pp.runnerR, c.runner(pp.runnerW), pp.closeRunner)
	p := NewPeer(pp.brigR, c.brig(pp.brigW), PeerOptions{Close: pp.closeBrig})
	conversation(t.Context(), p, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c.offset())
	})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	x.close()
	return c, ends
}

func TestTranscript(t *testing.T) {
	c, _ := recordConversation(t)
	var b strings.Builder
	for _, f := range c.frames {
		payload := f.raw[headerSize:]
		if len(payload) > 1000 && f.raw[2] == byte(KindData) {
			payload = fmt.Appendf(payload[:20:20], "… (%d bytes)", len(payload))
		}
		fmt.Fprintf(&b, "%-6s %x %x %x %q\n", f.from, f.raw[:4], f.raw[4:8], f.raw[8:12], payload)
	}
	got := strings.NewReplacer(`\"`, `"`).Replace(b.String())
	name := filepath.Join("testdata", "conversation.txtar")
	if *update {
		a := &txtar.Archive{
			Comment: []byte("One conversation as it travels: who writes, header (magic kind flags, stream, length), payload.\nWritten by go test -run TestTranscript -update.\n"),
			Files:   []txtar.File{{Name: "frames", Data: []byte(got)}},
		}
		if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(a.Files[0].Data); got != want {
		t.Errorf("the bytes on the wire have changed:\n%s\nwant:\n%s", got, want)
	}
}

// cutTape plays the runner's part again, up to a byte.
type cutTape struct {
	said   []piece
	left   int // until the cut
	mu     sync.Mutex
	more   sync.Cond
	sent   int
	closed bool
}

func (c *cutTape) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += len(p)
	c.more.Broadcast()
	return len(p), nil
}

func (c *cutTape) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.left > 0 && c.sent < c.said[0].after {
		c.more.Wait()
	}
	if c.closed || c.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.said[0].bytes[:min(len(c.said[0].bytes), c.left)])
	c.left -= n
	if c.said[0].bytes = c.said[0].bytes[n:]; len(c.said[0].bytes) == 0 {
		c.said = c.said[1:]
	}
	return n, nil
}

func (c *cutTape) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.more.Broadcast()
	return nil
}

// TestCutEverywhere ends the connection after every single byte of a
// conversation: a step succeeds exactly if the runner had said all of it.
func TestCutEverywhere(t *testing.T) {
	c, ends := recordConversation(t)
	before := runtime.NumGoroutine()
	for cut := range c.total + 1 {
		part := &cutTape{said: append([]piece(nil), c.said...), left: cut}
		part.more.L = &part.mu
		p := NewPeer(part, part, PeerOptions{Close: part.Close})
		i := 0
		conversation(t.Context(), p, func(err error) {
			if whole := cut >= ends[i]; whole != (err == nil) {
				t.Errorf("cut at %d of %d, step %d ends at %d: %v", cut, c.total, i, ends[i], err)
			}
			var lost *LostError
			if err != nil && !errors.As(err, &lost) && i > 0 && ends[0] <= cut {
				t.Errorf("cut at %d, step %d: %v", cut, i, err)
			}
			i++
		})
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, before)
}
