package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"brig/orchestrator/api"
)

// decode reads the arguments of a call. An unknown one is an error: it would be one
// that the model believes to have an effect.
func (c *call) decode(into any) error { return decodeArgs(c.req.Params.Arguments, into) }

func decodeArgs(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one object")
		}
	}
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	text := err.Error()
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		text = fmt.Sprintf("%q has the wrong type: %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		text = "the arguments have to be one object"
	}
	return invalid("%s", strings.TrimPrefix(text, "json: "))
}

// invalid is a mistake in the arguments of a call.
func invalid(format string, a ...any) error {
	return api.NewProblem(api.CodeInvalid, "the arguments are not right: "+fmt.Sprintf(format, a...), "correct the arguments and call again")
}

// number is a whole number, also where a model writes it as 5.0.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return errors.New("a number was expected")
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<52 {
		return errors.New("a whole number was expected")
	}
	*n = number(f)
	return nil
}

// source is Python source as one string, or as a list of lines.
type source struct {
	text  string
	given bool
}

func (s *source) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var lines []string
	if json.Unmarshal(b, &s.text) == nil {
		s.given = true
		return nil
	}
	if json.Unmarshal(b, &lines) != nil {
		return errors.New("code was expected as a string, or as a list of lines")
	}
	s.text, s.given = join(lines), true
	return nil
}

// join makes one source of lines, which may have their line ends or not.
func join(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimSuffix(l, "\n") + "\n")
	}
	return b.String()
}

// waiting is how long a call waits for a run.
func waiting(seconds *number, at time.Duration) (time.Duration, error) {
	if seconds == nil {
		return at, nil
	}
	if *seconds < 0 || *seconds > number(at/time.Second) {
		return 0, invalid(`"wait_seconds" may be 0 to %d`, at/time.Second)
	}
	return time.Duration(*seconds) * time.Second, nil
}
