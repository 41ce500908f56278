package service

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"brig/orchestrator/api"
)

// This file knows the notebook format 4.5, as far as a notebook of what ran needs it.

type cell struct {
	Type     string         `json:"cell_type"`
	ID       string         `json:"id"`
	Metadata map[string]any `json:"metadata"`
	Source   []string       `json:"source"`
}

type codeCell struct {
	cell
	Count   int   `json:"execution_count"`
	Outputs []any `json:"outputs"`
}

type streamOutput struct {
	Type string   `json:"output_type"`
	Name string   `json:"name"`
	Text []string `json:"text"`
}

type displayOutput struct {
	Type     string         `json:"output_type"`
	Data     map[string]any `json:"data"`
	Metadata map[string]any `json:"metadata"`
	Count    *int           `json:"execution_count,omitempty"` // of a result
}

type errorOutput struct {
	Type      string   `json:"output_type"`
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// notebook writes one cell after the other: outputs may be large, and only one
// run's are held at a time.
func (e *export) notebook(out io.Writer) error {
	first, err := json.Marshal(cell{
		Type: "markdown", ID: "brig-export", Metadata: map[string]any{}, Source: lines(strings.Join(e.heading(), "\n\n")),
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "{\"cells\": [\n%s", first); err != nil {
		return err
	}
	err = e.cells(func(number int, r api.Run, source string) error {
		text, err := json.Marshal(cellOf(number, r, source))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, ",\n%s", text)
		return err
	})
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(map[string]any{
		"kernelspec":    map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"},
		"language_info": map[string]string{"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
		"brig":          map[string]any{"session": e.session, "name": e.name, "exported": e.when},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n],\n\"metadata\": %s,\n\"nbformat\": 4,\n\"nbformat_minor\": 5}\n", metadata)
	return err
}

func cellOf(number int, r api.Run, source string) codeCell {
	about := map[string]any{"run": r.ID, "started": r.Started, "state": r.State, "remarks": remarks(r), "code_sha256": r.CodeSHA256}
	if r.Ended != nil {
		about["cause"], about["elapsed_ms"] = r.Cause, r.ElapsedMs
	}
	if r.Stamp != nil {
		about["stamp"] = r.Stamp
	}
	return codeCell{
		cell: cell{
			Type: "code", ID: cellID(r.ID), Metadata: map[string]any{"brig": about}, Source: lines(strings.TrimRight(source, "\n")),
		},
		Count: number, Outputs: outputsOf(number, r),
	}
}

// cellID is an id as the format allows it: 1 to 64 of letters, digits, - and _.
func cellID(run string) string {
	if len(run) > 64 {
		run = run[:64]
	}
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, run)
}

// outputsOf are the outputs of a run. How prints and figures were interleaved is not kept.
func outputsOf(number int, r api.Run) []any {
	out := []any{}
	for _, s := range []struct {
		name string
		o    api.Output
	}{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		text := s.o.Text
		if s.o.DroppedBytes > 0 {
			text += fmt.Sprintf("\n[%d bytes are not kept]\n", s.o.DroppedBytes)
		}
		if text += s.o.Tail; text != "" {
			out = append(out, streamOutput{"stream", s.name, lines(text)})
		}
	}
	for _, d := range r.Displays {
		o := displayOutput{Type: "display_data", Data: map[string]any{}, Metadata: map[string]any{}}
		if d.Role == "result" {
			o.Type, o.Count = "execute_result", &number
		}
		for _, p := range d.Data {
			o.Data[p.MIME] = partOf(p)
		}
		out = append(out, o)
	}
	if r.DisplaysDropped > 0 {
		out = append(out, streamOutput{"stream", "stderr", []string{fmt.Sprintf("[%d figures or results are not kept]\n", r.DisplaysDropped)}})
	}
	if x := r.Exception; x != nil {
		out = append(out, errorOutput{"error", x.Name, x.Message, strings.Split(strings.TrimRight(x.Traceback, "\n"), "\n")})
	}
	return out
}

// partOf is one representation as the format has it: JSON as itself, text as lines,
// anything else as base64.
func partOf(p api.DisplayPart) any {
	if p.Base64 != nil {
		return base64.StdEncoding.EncodeToString(p.Base64)
	}
	kind, _, _ := strings.Cut(p.MIME, ";")
	if kind == "application/json" || strings.HasSuffix(kind, "+json") {
		var value any
		if json.Unmarshal([]byte(p.Text), &value) == nil {
			return value
		}
	}
	return lines(p.Text)
}

// lines are the lines of text, each with its end.
func lines(text string) []string {
	out := strings.SplitAfter(text, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}
