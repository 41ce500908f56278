package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"brig/images"
)

// traceID marks the messages in which BuildKit gives account of itself: base64 of a
// protobuf StatusResponse of its control API.
const traceID = "moby.buildkit.trace"

// vertex is a node of BuildKit's graph: an instruction of the recipe, or something
// of its own, whose name begins with "[internal]".
type vertex struct {
	digest, name, failure string
	started, completed    bool
	number                int // in the order in which they began, from 1
	tail                  []string
}

// solving is what is known of one build.
type solving struct {
	progress func(images.Progress)
	vertices map[string]*vertex
	begun    int
	failed   *vertex
}

// readBuildKit turns BuildKit's records into progress and finds the failure.
func readBuildKit(r io.Reader, progress func(images.Progress)) error {
	s := &solving{progress: progress, vertices: map[string]*vertex{}}
	return readMessages(r, func(m buildMessage) error {
		if m.Error != nil {
			return s.failure(m.Error.Message)
		}
		if m.ID != traceID {
			return nil
		}
		var record []byte
		if err := json.Unmarshal(m.Aux, &record); err != nil {
			return fmt.Errorf("read BuildKit's account of the build: %w", err)
		}
		if err := s.status(record); err != nil {
			return fmt.Errorf("read BuildKit's account of the build: %w", err)
		}
		return nil
	})
}

func (s *solving) failure(message string) error {
	failed := &images.StepError{Message: oneLine(message, 400)}
	if v := s.failed; v != nil {
		failed.Step, failed.Tail = oneLine(instructionOf(v.name), 200), v.tail
	}
	return failed
}

// status reads a StatusResponse: 1 is a vertex, 3 a piece of a vertex's output.
func (s *solving) status(record []byte) error {
	var fresh []*vertex
	err := fields(record, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			v, err := s.vertex(value)
			if err == nil {
				fresh = append(fresh, v)
			}
			return err
		case 3:
			s.tell(fresh)
			fresh = nil
			return s.log(value)
		}
		return nil
	})
	s.tell(fresh)
	return err
}

// vertex reads one: 1 digest, 3 name, 5 started, 6 completed, 7 error.
func (s *solving) vertex(record []byte) (*vertex, error) {
	var got vertex
	err := fields(record, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			got.digest = string(value)
		case 3:
			got.name = string(value)
		case 5:
			got.started = true
		case 6:
			got.completed = true
		case 7:
			got.failure = string(value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	v := s.vertices[got.digest]
	if v == nil {
		v = &vertex{digest: got.digest}
		s.vertices[got.digest] = v
	}
	v.name = got.name
	v.started = v.started || got.started
	v.completed = v.completed || got.completed
	if got.failure != "" && s.failed == nil && !internal(v.name) {
		v.failure, s.failed = got.failure, v
	}
	return v, nil
}

// tell says which vertices began. The total is only known when all of them are, so
// it is counted after each record.
func (s *solving) tell(fresh []*vertex) {
	for _, v := range fresh {
		if !v.started || v.number > 0 || internal(v.name) {
			continue
		}
		s.begun++
		v.number = s.begun
		s.progress(images.Progress{Step: v.number, Total: s.total(), Text: instructionOf(v.name), Instruction: true})
	}
}

func (s *solving) total() int {
	n := 0
	for _, v := range s.vertices {
		if !internal(v.name) {
			n++
		}
	}
	return n
}

// log reads a piece of output: 1 the vertex's digest, 4 the text.
func (s *solving) log(record []byte) error {
	var digest, text string
	err := fields(record, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			digest = string(value)
		case 4:
			text = string(value)
		}
		return nil
	})
	v := s.vertices[digest]
	if err != nil || v == nil {
		return err
	}
	for _, line := range lines(text) {
		v.tail = addTail(v.tail, line)
		if v.number > 0 {
			s.progress(images.Progress{Step: v.number, Total: s.total(), Text: line})
		}
	}
	return nil
}

func internal(name string) bool {
	return strings.HasPrefix(name, "[internal]") || !strings.HasPrefix(name, "[")
}

// instructionOf takes the place away from "[libraries 3/5] RUN …".
func instructionOf(name string) string {
	if _, text, found := strings.Cut(name, "] "); found {
		return strings.TrimSpace(text)
	}
	return name
}

var errRecord = errors.New("a record that is no protobuf")

// fields hands on the fields of a message that have a length; numbers are skipped.
func fields(record []byte, take func(number protowire.Number, value []byte) error) error {
	for len(record) > 0 {
		number, kind, n := protowire.ConsumeTag(record)
		if n < 0 {
			return errRecord
		}
		record = record[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(record)
			if n < 0 {
				return errRecord
			}
			record = record[n:]
			if err := take(number, value); err != nil {
				return err
			}
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, record); n < 0 {
			return errRecord
		}
		record = record[n:]
	}
	return nil
}
