package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers bounds how long answers are waited for after the end of the input: a
// client that wrote everything and closed gets them, one that is gone holds nothing up.
const lastAnswers = 5 * time.Second

// Serve speaks MCP on a pair of streams, one JSON-RPC message a line, until in ends,
// out is closed, or ctx ends. A line that is no message is answered as JSON-RPC has it, and
// the next one is read. The first two are how a client says goodbye and no error.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Before there is a client: it must not be told of a change to a list that it has not seen.
	_ = s.offer.refresh(ctx, 0)
	ended := make(chan struct{})
	both := &shared{w: out}
	reader := &lingering{Reader: newLines(in, both), s: s, ended: ended}
	ss, err := s.sdk.Connect(ctx, &sdk.IOTransport{Reader: reader, Writer: closable{both}, MaxLineLength: maxBody}, nil)
	if err != nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- ss.Wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// A read of the input may never return: the session is left, not waited for.
		go ss.Close()
		return context.Cause(ctx)
	}
	if reader.over() || errors.Is(err, io.EOF) || err == nil {
		return nil
	}
	return fmt.Errorf("serve MCP: %w", err)
}

// lingering lets the end of the input wait for the answers to what came before.
type lingering struct {
	io.Reader
	s     *Server
	ended chan struct{}
}

func (l *lingering) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	select {
	case <-l.ended:
		return 0, err
	default:
		close(l.ended)
	}
	// What was read last may not have begun yet.
	wait := time.NewTimer(lastAnswers)
	defer wait.Stop()
	settle := time.NewTimer(50 * time.Millisecond)
	defer settle.Stop()
	select {
	case <-settle.C:
	case <-l.s.ctx.Done():
	}
	select {
	case <-l.s.calls.quiet():
	case <-wait.C:
	case <-l.s.ctx.Done():
	}
	return 0, err
}

func (l *lingering) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *lingering) Close() error { return nil }

type closable struct{ io.Writer }

func (closable) Close() error { return nil }
