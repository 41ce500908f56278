package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func goodMessages() map[Role][]Message {
	text := "<b>é</b>"
	return map[Role][]Message{
		RoleBrig: {
			Hello{Version: Version, Workspace: "/workspace", Scratch: "/scratch", Bounds: Bounds{1, 2, 3}},
			Hello{Version: Version, Workspace: "/workspace", Scratch: "/scratch", Bounds: Bounds{1, 2, 3}, Lease: time.Minute, Resume: strings.Repeat("0f", 32)},
			Hello{Version: Version, Workspace: "/workspace", Scratch: "/scratch", Silence: time.Minute},
			RunMessage{ID: "r1", Code: 3, Size: 10, Filename: "a.py", Argv: []string{"-x", ""}, Once: true},
			RunMessage{ID: "r1", Code: 3, Limit: time.Minute},
			CallMessage{ID: "c1", Op: OpPut, Args: ControlArgs{Path: "a/b", Mode: 0o600}, In: 5},
		},
		RoleRunner: {
			testReady(),
			ResumedMessage{Ready: testReady(), Run: "r1", Ended: true},
			StartedMessage{Run: "r1"},
			GapMessage{Run: "r1", Name: "stderr", Bytes: 1 << 40},
			DisplayMessage{Run: "r1", Role: "result", Bundle: []BundlePart{{MIME: "text/html", Size: int64(len(text)), Text: &text}, {MIME: "image/png", Size: MaxInline + 1, Stream: 4}}},
			Exit{
				Run: "r1", Outcome: OutcomeException, State: StateKept, Stdout: Count{Total: 3, Kept: 1, Dropped: 2}, Log: &Log{Path: ".brig/log", Bytes: 3, Error: "ENOSPC: full"}, Elapsed: 5, OOMKills: 1,
				Exception: &Exception{Name: "ValueError", Message: "no", Traceback: "…", Frames: []Frame{{File: "<cell 1>", Line: 1, Name: "<module>", Text: "x"}}},
			},
			Exit{Run: "r1", Outcome: OutcomeSignal, Signal: 9, State: StateLost, Hard: true, Exceeded: ExceededTime},
			ReplyMessage{ID: "c1", Body: json.RawMessage(`{"a":[1,2]}`), Out: 6},
			ReplyMessage{ID: "c2", Error: &CallError{Code: CodeBusy, Message: "a run is active"}},
		},
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	for role, messages := range goodMessages() {
		for _, m := range messages {
			payload, err := EncodeMessage(m)
			if err != nil {
				t.Errorf("%T: %v", m, err)
				continue
			}
			got, err := DecodeMessage(payload, role)
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%T: %v\n got %+v\nwant %+v", m, err, got, m)
			}
			if _, err := DecodeMessage(payload, 3-role); !errors.As(err, new(*ProtocolError)) {
				t.Errorf("%T from the wrong side: %v", m, err)
			}
		}
	}
}

func TestMessagesRequireTheirMembers(t *testing.T) {
	optional := map[string]string{
		"hello": "silence_ns", "run": "filename argv once limit_ns", "call": "args in",
		"ready": "implementation executable", "resumed": "run ended", "exit": "status exception log displays elapsed_ns oom_kills hard exceeded", "reply": "error body out",
	}
	for role, messages := range goodMessages() {
		for _, m := range messages {
			payload, err := EncodeMessage(m)
			if err != nil {
				t.Fatal(err)
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(payload, &members); err != nil {
				t.Fatal(err)
			}
			for name, value := range members {
				if strings.Contains(optional[m.messageType()], name) || m.messageType() == "ready" && name == "version" {
					continue
				}
				delete(members, name)
				less, err := json.Marshal(members)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := DecodeMessage(less, role); !errors.As(err, new(*ProtocolError)) && !(name == "version") {
					t.Errorf("%s without %s: %v", m.messageType(), name, err)
				}
				members[name] = value
			}
		}
	}
}

func TestEncodeRefusesWhatDecodeRefuses(t *testing.T) {
	for _, m := range []Message{
		RunMessage{ID: "r/1", Code: 3},
		RunMessage{ID: "r1", Code: 1},
		RunMessage{ID: "r1", Code: 3, Limit: -1},
		Hello{Silence: -1},
		Exit{Run: "r1", Outcome: OutcomeSignal, Signal: 9, State: StateLost, Exceeded: "patience"},
		Exit{Run: "r1", Outcome: OutcomeOK, State: StateKept, Stdout: Count{Incomplete: true}},
		StartedMessage{},
		GapMessage{Run: "r1", Name: "stdout"},
		Exit{Run: "r1"},
		ReplyMessage{ID: strings.Repeat("c", 65)},
		DisplayMessage{Run: "r1", Role: "result"},
		CallMessage{ID: "c1", Op: "two words"},
		Hello{Bounds: Bounds{Kept: -1}},
		Hello{Lease: time.Minute},
		Hello{Lease: -time.Minute, Resume: strings.Repeat("0f", 32)},
		Hello{Resume: strings.Repeat("0f", 32)},
		Hello{Lease: time.Minute, Resume: strings.Repeat("0F", 32)},
		ResumedMessage{Ready: testReady(), Run: "r/1"},
		ResumedMessage{Ready: Ready{Version: Version + 1}},
		Ready{},
		ReplyMessage{ID: "c1", Body: json.RawMessage(`"` + strings.Repeat("x", MaxPayload) + `"`)},
		ReplyMessage{ID: "c1", Body: json.RawMessage(`{`)},
	} {
		if b, err := EncodeMessage(m); err == nil {
			t.Errorf("%T was encoded: %s", m, b)
		}
	}
}

func FuzzControl(f *testing.F) {
	for role, messages := range goodMessages() {
		for _, m := range messages {
			payload, err := EncodeMessage(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(payload, role == RoleRunner)
		}
	}
	f.Add([]byte(`{"type":"exit","run":"r1","outcome":"ok","stdout":{"total":1e9,"kept":-1},"stderr":null,"state":"kept"}`), true)
	f.Add([]byte(`{"type":"ready","version":2}`), true)
	f.Add([]byte(`{"type":"gap","run":"\ud800","name":"stdout","bytes":18446744073709551616}`), true)
	f.Add([]byte(`[[[[[[[[[[[[[[[[[[{"\"`), true)
	f.Fuzz(func(t *testing.T, payload []byte, fromRunner bool) {
		role := RoleBrig
		if fromRunner {
			role = RoleRunner
		}
		m, err := DecodeMessage(payload, role)
		if err != nil {
			if m != nil || !errors.As(err, new(*ProtocolError)) {
				t.Fatalf("%v with %v", m, err)
			}
			return
		}
		if r, ok := m.(Ready); ok && r.Version != Version {
			return
		}
		if h, ok := m.(Hello); ok && h.Version != Version {
			return
		}
		again, err := EncodeMessage(m)
		if err != nil {
			if len(payload) < MaxPayload/8 { // escapes and defaults may make it longer than a frame
				t.Fatalf("what was read is refused: %v", err)
			}
			return
		}
		twice, err := DecodeMessage(again, role)
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		if third, err := EncodeMessage(twice); err != nil || string(third) != string(again) {
			t.Fatalf("not stable: %v\n%s\n%s", err, again, third)
		}
	})
}
