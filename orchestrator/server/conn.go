package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/service"
)

const (
	writeGap   = 30 * time.Second // for a piece of an answer to be taken
	writePiece = 64 << 10         // bytes, how much that is at most
)

// from is which listener a connection came through.
type from uint8

const (
	agentSocket from = iota
	operatorSocket
	loopback
)

func (f from) String() string {
	return [...]string{agentSocket: api.AgentSocket, operatorSocket: api.OperatorSocket, loopback: "tcp"}[f]
}

// conn is one connection. Each piece that is written has a deadline of its own, so
// that a reader who stops holds nothing for long, and a long run holds its
// connection for as long as it takes.
type conn struct {
	net.Conn
	from from
	who  peer
	gap  time.Duration // for a piece of an answer to be taken
	// busy is set while an answer of a handler may be written; otherwise what is
	// written is net/http's own, and in plain text.
	busy  atomic.Bool
	close func() error // once: gives the place of the connection back
}

func newConn(c net.Conn, l *listener, who peer, done func()) *conn {
	return &conn{Conn: c, from: l.from, who: who, gap: l.gap, close: sync.OnceValue(func() error { defer done(); return c.Close() })}
}

// Close is idempotent.
func (c *conn) Close() error { return c.close() }

// Write writes in pieces that each have to be taken within the gap.
func (c *conn) Write(p []byte) (int, error) {
	if !c.busy.Load() {
		if better, ok := plainAsProblem(p); ok {
			if _, err := c.write(better); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.write(p)
}

func (c *conn) write(p []byte) (int, error) {
	written := 0
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.gap)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(written+writePiece, len(p))])
		written += n
		if err != nil || written >= len(p) {
			return written, err
		}
	}
}

// settled hears from net/http that an answer is complete.
func settled(c net.Conn, state http.ConnState) {
	if own, ok := c.(*conn); ok && state == http.StateIdle {
		own.busy.Store(false)
	}
}

// plainError is how net/http ends the header of what it refuses before any handler.
const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// plainAsProblem turns such an answer into a problem.
func plainAsProblem(p []byte) ([]byte, bool) {
	line, _, found := bytes.Cut(p, []byte(plainError))
	line, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !found || !ok || len(line) < 3 {
		return nil, false
	}
	problem := api.NewProblem(api.CodeMalformed, "the request cannot be read as HTTP/1.1", "")
	if status, err := strconv.Atoi(string(line[:3])); err == nil && status == http.StatusRequestHeaderFieldsTooLarge {
		problem = api.NewProblem(api.CodeHeader, fmt.Sprintf("the header is longer than %d bytes", headerBytes), "")
	}
	return rawProblem(problem), true
}

// rawProblem is a whole answer for a connection that no handler has seen.
func rawProblem(p *api.Problem) []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("BUG: a problem cannot be written: %v", err))
	}
	retry := ""
	if p.RetryAfter > 0 {
		retry = fmt.Sprintf("Retry-After: %d\r\n", p.RetryAfter)
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		p.Status, http.StatusText(p.Status), api.ProblemType, retry, len(text), text)
}

// caller is who speaks through a socket whose file only this user can open, and
// whose process the system says is this user's. nil: the connection says nothing.
func (c *conn) caller() *service.Caller {
	switch {
	case c.from == operatorSocket && c.who.own:
		return &service.Caller{Role: service.Operator, ID: operatorID}
	case c.from == agentSocket && c.who.own:
		return &service.Caller{ID: agentID}
	}
	return nil
}

// via is how a connection came, for logs and the audit.
func (c *conn) via() string {
	text := c.from.String()
	if c.who.uidKnown {
		text += fmt.Sprintf(" uid %d", c.who.uid)
	}
	if c.who.pid > 0 {
		text += fmt.Sprintf(" pid %d", c.who.pid)
	}
	return text
}
