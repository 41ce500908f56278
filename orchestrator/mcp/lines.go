package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// JSON-RPC's own numbers for what is no request.
const (
	parseError     = -32700
	invalidRequest = -32600
)

// batchesUntil is the first revision in which a line holds one message.
const batchesUntil = "2025-06-18"

// lines passes on the lines that hold messages. The SDK ends a session at the first
// that does not; JSON-RPC has an answer for it, and the client can go on.
type lines struct {
	in      *bufio.Reader
	out     io.Writer
	ready   []byte
	version string // of the revision that the client asked for
}

func newLines(in io.Reader, out io.Writer) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		line, long, err := l.line()
		if line = bytes.TrimSpace(line); err != nil && len(line) == 0 {
			return 0, err
		}
		if len(line) == 0 {
			continue
		}
		if code, id, why := l.judge(line, long); code != 0 {
			if err := l.refuse(code, id, why); err != nil {
				return 0, err
			}
			continue
		}
		l.ready = append(line, '\n')
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// line is the next one, without what makes it longer than a message may be.
func (l *lines) line() (line []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxBody; !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// judge says what is wrong with a line; code 0: nothing.
func (l *lines) judge(line []byte, long bool) (code int, id json.RawMessage, why string) {
	switch {
	case long:
		return invalidRequest, nil, fmt.Sprintf("a message may have %d bytes", maxBody)
	case !json.Valid(line):
		return parseError, nil, "the line is not one JSON value"
	case line[0] == '[':
		return l.batch(line)
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return invalidRequest, idOf(line), "it is no JSON-RPC 2.0 message"
	}
	var first struct {
		Method string `json:"method"`
		Params struct {
			Version string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &first) == nil && first.Method == "initialize" {
		l.version = first.Params.Version
	}
	return 0, nil, ""
}

// batch judges several messages in one line, which old revisions know.
func (l *lines) batch(line []byte) (code int, id json.RawMessage, why string) {
	if l.version == "" || l.version >= batchesUntil {
		return invalidRequest, nil, "a line holds one message, and no batch"
	}
	var all []json.RawMessage
	if json.Unmarshal(line, &all) != nil || len(all) == 0 {
		return invalidRequest, nil, "a batch holds one message or more"
	}
	seen := map[string]bool{}
	for _, one := range all {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return invalidRequest, nil, "the batch holds what is no JSON-RPC 2.0 message"
		}
		if id := string(idOf(one)); id != "" && seen[id] {
			return invalidRequest, nil, "two messages of the batch have the same id"
		} else if id != "" {
			seen[id] = true
		}
	}
	return 0, nil, ""
}

// idOf is the id of a message as it stands there, if it has one that an answer can bear.
func idOf(line []byte) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	id := m["id"]
	if len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9') {
		return id
	}
	return nil
}

// refuse answers a line that nobody else will.
func (l *lines) refuse(code int, id json.RawMessage, why string) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	answer, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why},
	})
	if err != nil {
		return fmt.Errorf("answer what is no message: %w", err)
	}
	_, err = l.out.Write(append(answer, '\n'))
	return err
}

// shared lets two write whole lines to one stream.
type shared struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
