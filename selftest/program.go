package selftest

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

//go:embed attempts/*.py
var attempts embed.FS

// frame is the file that comes first: the others register themselves with it.
const frame = "attempts/base.py"

// answerMark begins a line that tells of an attempt; everything else that a program
// prints is nobody's business.
const answerMark = "brig-selftest "

const (
	maxAnswer = 4096 // bytes of a line
	maxDetail = 512
)

// program is the Python source that tries the probes on the targets, one after
// another. The control run and every session get the same text but for its targets.
func program(targets map[string]any, probes []Probe) ([]byte, error) {
	names, err := fs.Glob(attempts, "attempts/*.py")
	if err != nil {
		return nil, err
	}
	return programOf(names, targets, probes)
}

// programOf is program with these files of attempts only, which start sooner.
func programOf(names []string, targets map[string]any, probes []Probe) ([]byte, error) {
	list := make([][2]any, 0, len(probes))
	for _, p := range probes {
		list = append(list, [2]any{p.ID, p.bound().Seconds()})
	}
	var b bytes.Buffer
	b.WriteString("import json\n")
	for name, value := range map[string]any{"T": targets, "LIST": list} {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("write down the targets of the self-test: %w", err)
		}
		// JSON in JSON: its text is a Python string as well.
		text, err := json.Marshal(string(raw))
		if err != nil {
			return nil, fmt.Errorf("write down the targets of the self-test: %w", err)
		}
		fmt.Fprintf(&b, "%s = json.loads(%s)\n", name, text)
	}
	rest := slices.DeleteFunc(names, func(name string) bool { return name == frame })
	for _, name := range append([]string{frame}, rest...) {
		text, err := attempts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	b.WriteString("main()\n")
	return b.Bytes(), nil
}

func (p Probe) bound() time.Duration {
	if p.Bound > 0 {
		return p.Bound
	}
	return AttemptBound
}

// outcomes reads what a program printed. The lines come from a session and are
// believed no further than for what one attempt says of itself.
func outcomes(stdout []byte) map[string]Outcome {
	out := map[string]Outcome{}
	lines := bufio.NewScanner(bytes.NewReader(stdout))
	lines.Buffer(make([]byte, 0, maxAnswer), 1<<20)
	for lines.Scan() {
		text, found := bytes.CutPrefix(lines.Bytes(), []byte(answerMark))
		if !found || len(text) > maxAnswer {
			continue
		}
		var said struct {
			ID     string  `json:"id"`
			OK     bool    `json:"ok"`
			Step   string  `json:"step"`
			Sign   string  `json:"sign"`
			Detail string  `json:"detail"`
			MS     float64 `json:"ms"`
		}
		if json.Unmarshal(text, &said) != nil || said.ID == "" {
			continue
		}
		o := Outcome{
			Ran: true, OK: said.OK, Step: said.Step, Sign: said.Sign, Detail: said.Detail[:min(len(said.Detail), maxDetail)],
			TimedOut: said.Sign == "timeout", Took: time.Duration(said.MS * float64(time.Millisecond)),
		}
		// brig's own frame answers once. Whoever answers for it as well is not believed.
		if first, twice := out[said.ID]; twice && (first.OK != o.OK || first.Step != o.Step || first.Sign != o.Sign) {
			o = Outcome{Ran: true, Sign: "exception:twice", Detail: "two answers came, and they differ"}
		}
		out[said.ID] = o
	}
	return out
}
