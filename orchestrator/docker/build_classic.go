package docker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"brig/images"
)

// tailLines is how much of what a step said goes into its failure.
const tailLines = 12

// buildMessage is one object of the stream that the engine answers a build with.
type buildMessage struct {
	Stream string          `json:"stream"`
	ID     string          `json:"id"`
	Aux    json.RawMessage `json:"aux"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// readMessages hands on message after message up to the end of the stream.
func readMessages(r io.Reader, take func(buildMessage) error) error {
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		var m buildMessage
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the engine's account of the build: %w", err)
		}
		if err := take(m); err != nil {
			return err
		}
	}
}

// lines splits what a step wrote; a progress bar's carriage return ends a line too.
func lines(text string) []string {
	var out []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// addTail keeps the last lines, printable.
func addTail(tail []string, line string) []string {
	if tail = append(tail, oneLine(line, 200)); len(tail) > tailLines {
		tail = tail[1:]
	}
	return tail
}

// housekeeping tells what the builder itself says between the lines of a step.
func housekeeping(line string) bool {
	return strings.HasPrefix(line, "---> ") || strings.HasPrefix(line, "Removing intermediate container ")
}

// readClassic turns the classic builder's messages into progress and finds the
// failure. Its steps only show in its words.
func readClassic(r io.Reader, progress func(images.Progress)) error {
	header := regexp.MustCompile(`^Step (\d+)/(\d+) : (.*)`)
	var now images.Progress
	failed := &images.StepError{}
	return readMessages(r, func(m buildMessage) error {
		if m.Error != nil {
			failed.Message = oneLine(m.Error.Message, 400)
			return failed
		}
		for _, line := range lines(m.Stream) {
			now.Text, now.Instruction = line, false
			if step := header.FindStringSubmatch(line); step != nil {
				now.Step, _ = strconv.Atoi(step[1])
				now.Total, _ = strconv.Atoi(step[2])
				now.Text, now.Instruction = step[3], true
				failed.Step, failed.Tail = oneLine(step[3], 200), nil
			} else if !housekeeping(line) {
				failed.Tail = addTail(failed.Tail, line)
			}
			progress(now)
		}
		return nil
	})
}
