package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

type layer struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Verdict string `json:"verdict,omitempty"`
}

type statusResult struct {
	RunsCode   bool     `json:"runs_code"`
	WhyNot     string   `json:"why_not,omitempty"`
	Words      string   `json:"words"`
	Backend    string   `json:"backend"`
	Configured string   `json:"configured"`
	Degraded   bool     `json:"degraded"`
	Weakened   bool     `json:"weakened"`
	Warnings   []string `json:"warnings"`
	Layers     []layer  `json:"layers"`
	Selftest   string   `json:"selftest,omitempty"`
	Session    string   `json:"session"`
	Version    string   `json:"version"`
}

// look is the tool sandbox_status.
func look(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	if err := c.decode(&struct{}{}); err != nil {
		return nil, err
	}
	st, err := c.brig.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := statusResult{
		Backend: st.Isolation.Resolved, Configured: st.Isolation.Configured, Degraded: st.Isolation.Degraded, Weakened: st.Isolation.Weakened,
		Warnings: []string{}, Layers: []layer{}, Version: st.Version, RunsCode: true, Session: c.peer.Session,
	}
	if err := unoffered(st); err != nil {
		out.RunsCode, out.WhyNot = false, clean(problemOf(err).Error())
	}
	for _, w := range st.Isolation.Warnings {
		out.Warnings = append(out.Warnings, clean(w))
	}
	var weak []string
	for _, l := range st.Layers {
		out.Layers = append(out.Layers, layer{ID: l.ID, State: l.State, Reason: clean(l.Reason), Verdict: l.Verdict})
		if l.State != "enforced" {
			weak = append(weak, l.ID+" "+l.State)
		}
	}
	if t := st.Selftest; t != nil {
		out.Selftest = clean(firstOf(t.Sentence, t.State))
	}
	if h, err := c.s.homes.of(c.peer, c.req.Session); err == nil && out.Session == "" {
		out.Session = h.known()
	}
	var b strings.Builder
	switch {
	case out.Backend == "":
		b.WriteString("Nothing runs code now.")
	default:
		fmt.Fprintf(&b, "Code would run in %s (%s).", backendWords(out.Backend), observed(st))
	}
	for _, w := range out.Warnings {
		b.WriteString("\n- " + w)
	}
	if len(weak) > 0 {
		b.WriteString("\nNot enforced: " + strings.Join(weak, ", ") + ".")
	}
	if out.Selftest != "" {
		b.WriteString("\nLatest self-test: " + strings.TrimSuffix(out.Selftest, ".") + ".")
	}
	if out.RunsCode {
		b.WriteString("\nrun_python_sandboxed is offered; no person is asked (permissions.profile is auto-approve).")
	} else {
		b.WriteString("\nrun_python_sandboxed is not offered: " + out.WhyNot + ".")
	}
	out.Words = b.String()
	return structured(out, out.Words), nil
}

func observed(st api.Status) string {
	if st.Observed {
		return "as observed"
	}
	return "a forecast: no sandbox is open"
}
