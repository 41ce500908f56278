package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

// unasked is a brig that is not asked: what is tested lies in front of it.
type unasked struct{ api.Brig }

func (unasked) Status(context.Context) (api.Status, error) {
	return api.Status{}, api.NewProblem(api.CodeInternal, "nobody is there", "")
}

func (unasked) Watch(ctx context.Context, _ uint64, _ func(api.Event) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestServeGoesOn: what is no message is answered, and what follows it as well.
func TestServeGoesOn(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, c := range []struct {
		name, line string
		code       int
		id         string
	}{
		{"half an object", `{not json`, parseError, "null"},
		{"two values", `{} {}`, parseError, "null"},
		{"no UTF-8 and no JSON", "\xff\x00", parseError, "null"},
		{"an empty object", `{}`, invalidRequest, "null"},
		{"another version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, invalidRequest, "7"},
		{"an id that is none", `{"jsonrpc":"2.0","id":[],"method":"ping"}`, invalidRequest, "null"},
		{"a method that is none", `{"jsonrpc":"2.0","id":"x","method":5}`, invalidRequest, `"x"`},
		{"text", `"ping"`, invalidRequest, "null"},
		{"null", `null`, invalidRequest, "null"},
		{"a batch", `[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, invalidRequest, "null"},
		{"an empty batch", `[]`, invalidRequest, "null"},
		{"too long", `"` + strings.Repeat("x", maxBody) + `"`, invalidRequest, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(Options{Brig: unasked{}, Version: "1"})
			if err != nil {
				t.Fatal(err)
			}
			in, send := io.Pipe()
			receive, out := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- s.Serve(t.Context(), in, out); out.Close() }()
			answers := bufio.NewScanner(receive)
			ask := func(line string) (m struct {
				ID    json.RawMessage
				Error *struct{ Code int }
			},
			) {
				t.Helper()
				go func() { _, _ = io.WriteString(send, line+"\n") }()
				if !answers.Scan() {
					t.Fatalf("no answer: %v", answers.Err())
				}
				if err := json.Unmarshal(answers.Bytes(), &m); err != nil {
					t.Fatalf("%s: %v", answers.Text(), err)
				}
				return m
			}
			for _, first := range []bool{true, false} { // before and after the client has said who it is
				if m := ask(c.line); m.Error == nil || m.Error.Code != c.code || string(m.ID) != c.id {
					t.Errorf("answered with %s, want code %d and id %s", answers.Text(), c.code, c.id)
				}
				if first {
					if m := ask(hello); m.Error != nil || string(m.ID) != "1" {
						t.Errorf("what followed was answered with %s", answers.Text())
					}
				}
			}
			if m := ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); m.Error != nil || string(m.ID) != "2" {
				t.Errorf("what followed was answered with %s", answers.Text())
			}
			send.Close()
			if err := <-done; err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestBatchesOfOld: a client of an old revision may send several messages in a line.
func TestBatchesOfOld(t *testing.T) {
	l := newLines(nil, nil)
	l.version = "2025-03-26"
	for line, code := range map[string]int{
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`: 0,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`: invalidRequest,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},3]`:                                        invalidRequest,
		`[]`: invalidRequest,
	} {
		if got, _, why := l.judge([]byte(line), false); got != code {
			t.Errorf("%s: %d %s, want %d", line, got, why, code)
		}
	}
}
