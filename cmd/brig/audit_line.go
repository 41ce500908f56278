package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"brig/orchestrator/audit"
)

// shownValues is how much of a line's values a person is shown, in bytes.
const shownValues = 400

// told is what a person reads of a line's data; --json has all of it.
type told struct {
	Event   string       `json:"event"`
	Session string       `json:"session"`
	Name    string       `json:"session_name"`
	Run     string       `json:"run"`
	Cause   string       `json:"cause"`
	Detail  string       `json:"detail"`
	Reason  string       `json:"reason"`
	From    any          `json:"from"`
	To      any          `json:"to"`
	Segment string       `json:"segment"`
	Code    *audit.Code  `json:"code"`
	Where   *audit.Where `json:"where"`
	// Values are shown as they stand, cut short.
	Values json.RawMessage `json:"values"`
}

// auditLine is one line of the log for people, safe for a terminal.
func (p *program) auditLine(x audit.Line) string {
	parts := []string{
		fmt.Sprintf("%-8d", x.Number), p.tui.stdout.styled(styleDim, x.Time.Local().Format(time.DateTime)), fmt.Sprintf("%-10s", escapeLine(string(x.Kind))),
	}
	var d told
	if err := json.Unmarshal(x.Data, &d); err != nil {
		return strings.Join(append(parts, escapeLine(x.Actor), escapeLine(string(x.Data))), " ")
	}
	parts = append(parts, fmt.Sprintf("%-9s", escapeLine(d.Event)), escapeLine(x.Actor))
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+escapeLine(value))
		}
	}
	add("session ", firstOf(d.Name, d.Session))
	add("run ", d.Run)
	if d.Code != nil && d.Code.SHA256 != "" {
		add("", fmt.Sprintf("code %s, %s", d.Code.SHA256[:min(12, len(d.Code.SHA256))], size(int64(d.Code.Bytes))))
	}
	add("", d.Cause)
	if d.From != nil && d.To != nil {
		add("", fmt.Sprintf("from %v to %v", d.From, d.To))
	}
	add("", d.Segment)
	if w := d.Where; w != nil {
		add("", whereLine(*w))
	}
	add("", firstOf(d.Detail, d.Reason))
	if n := len(d.Values); n > shownValues {
		add("", string(d.Values[:shownValues])+"…")
	} else {
		add("", string(d.Values))
	}
	return strings.Join(parts, " ")
}

func whereLine(w audit.Where) string {
	var parts []string
	parts = append(parts, w.Backend)
	if w.Degraded {
		parts = append(parts, "degraded: "+strings.Join(w.Reasons, ", "))
	}
	parts = append(parts, w.Containment)
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
