package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Message is one control message: Hello, RunMessage and CallMessage from brig,
// Ready, ResumedMessage, StartedMessage, GapMessage, DisplayMessage, Exit and ReplyMessage from
// the runner.
type Message interface {
	// messageType is the "type" member.
	messageType() string
	// check reports the first thing that is out of range.
	check() error
}

// RunMessage asks for a run; the source follows on stream Code.
type RunMessage struct {
	ID       RunID    `json:"id"`
	Code     uint32   `json:"code"`
	Size     int64    `json:"size"`
	Filename string   `json:"filename,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Once     bool     `json:"once,omitempty"`
	// Limit is Run.Limit.
	Limit time.Duration `json:"limit_ns,omitempty"`
}

// CallMessage asks a question; its input, if any, follows on stream In.
type CallMessage struct {
	ID   string      `json:"id"`
	Op   Op          `json:"op"`
	Args ControlArgs `json:"args"`
	In   uint32      `json:"in"` // 0: no input
}

// StartedMessage says that output from here on belongs to Run.
type StartedMessage struct {
	Run RunID `json:"run"`
}

// GapMessage says that so many bytes of that output were dropped here.
type GapMessage struct {
	Run   RunID  `json:"run"`
	Name  string `json:"name"` // stdout or stderr
	Bytes int64  `json:"bytes"`
}

// DisplayMessage announces a MIME bundle.
type DisplayMessage struct {
	Run    RunID        `json:"run"`
	Role   string       `json:"role"`
	Bundle []BundlePart `json:"bundle"`
}

// BundlePart is one representation: Size bytes, in Text or on Stream.
type BundlePart struct {
	MIME   string  `json:"mime"`
	Size   int64   `json:"size"`
	Text   *string `json:"text,omitempty"`
	Stream uint32  `json:"stream,omitempty"`
}

// ReplyMessage answers a call: Error, or Body and the stream Out, all optional.
type ReplyMessage struct {
	ID    string          `json:"id"`
	Error *CallError      `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Out   uint32          `json:"out"` // 0: no output
}

func (Hello) messageType() string          { return "hello" }
func (RunMessage) messageType() string     { return "run" }
func (CallMessage) messageType() string    { return "call" }
func (Ready) messageType() string          { return "ready" }
func (StartedMessage) messageType() string { return "started" }
func (GapMessage) messageType() string     { return "gap" }
func (DisplayMessage) messageType() string { return "display" }
func (Exit) messageType() string           { return "exit" }
func (ReplyMessage) messageType() string   { return "reply" }

// EncodeMessage returns the payload of the control frame for m. It fails where
// DecodeMessage would refuse the result, so that nothing is sent that ends the connection.
func EncodeMessage(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode a %s message: %w", m.messageType(), err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("encode a %s message: %w", m.messageType(), err)
	}
	object := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	payload := fmt.Appendf(nil, `{"type":%q,`, m.messageType())
	payload = append(payload, object[1:]...)
	if len(payload) > MaxPayload {
		return nil, fmt.Errorf("encode a %s message: %d bytes, at most %d", m.messageType(), len(payload), MaxPayload)
	}
	return payload, nil
}

// DecodeMessage parses the payload of a control frame that the given side sent.
// Members it does not know are ignored; an unknown type, a missing member and
// anything out of range is a *ProtocolError. A Ready or Hello of another
// version is returned with nothing but its version.
func DecodeMessage(payload []byte, from Role) (Message, error) {
	if len(payload) > MaxPayload {
		return nil, violation("control message of %d bytes", len(payload))
	}
	if d := depth(payload); d > maxDepth {
		return nil, violation("control message nested %d deep", d)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, violation("control message is not a JSON object: %v", err)
	}
	var kind string
	if err := json.Unmarshal(members["type"], &kind); err != nil {
		return nil, violation("control message without a type")
	}
	if from == RoleRunner {
		switch kind {
		case "ready":
			if v := version(members); v != Version {
				return Ready{Version: v}, nil
			}
			return decode[Ready](payload, members, "version", "runner", "python", "observed")
		case "resumed":
			return decode[ResumedMessage](payload, members, "ready")
		case "started":
			return decode[StartedMessage](payload, members, "run")
		case "gap":
			return decode[GapMessage](payload, members, "run", "name", "bytes")
		case "display":
			return decode[DisplayMessage](payload, members, "run", "role", "bundle")
		case "exit":
			return decode[Exit](payload, members, "run", "outcome", "stdout", "stderr", "state")
		case "reply":
			return decode[ReplyMessage](payload, members, "id")
		}
	} else {
		switch kind {
		case "hello":
			if v := version(members); v != Version {
				return Hello{Version: v}, nil
			}
			return decode[Hello](payload, members, "version", "workspace", "scratch", "bounds")
		case "run":
			return decode[RunMessage](payload, members, "id", "code", "size")
		case "call":
			return decode[CallMessage](payload, members, "id", "op")
		}
	}
	return nil, violation("unknown control message %s", quoted(kind))
}

func decode[M Message](payload []byte, members map[string]json.RawMessage, required ...string) (Message, error) {
	var m M
	for _, name := range required {
		if v, ok := members[name]; !ok || string(v) == "null" {
			return nil, violation("%s message without %q", m.messageType(), name)
		}
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, violation("%s message: %v", m.messageType(), err)
	}
	if err := m.check(); err != nil {
		return nil, violation("%s message: %v", m.messageType(), err)
	}
	return m, nil
}

// version returns the version member, or 0 for none.
func version(members map[string]json.RawMessage) int {
	var v int
	if err := json.Unmarshal(members["version"], &v); err != nil {
		return 0
	}
	return v
}

// depth is how deep arrays and objects of b are nested. It is exact for JSON;
// for anything else the parser reports the error afterwards.
func depth(b []byte) int {
	deepest, level, inString := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
