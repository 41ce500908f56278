package mcp

import (
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// stampWords says what contained a run, so that a model can tell it to the user.
func stampWords(st *api.Stamp) string {
	if st == nil {
		return "It is not known what contained the code."
	}
	var out []string
	switch {
	case st.Uncontained:
		out = append(out, "NOT SANDBOXED: nothing was between this code and the user's files ("+backendWords(st.Backend)+").")
	default:
		out = append(out, fmt.Sprintf("Ran in %s: %s.", backendWords(st.Backend), st.Containment))
	}
	if st.Degraded {
		out = append(out, fmt.Sprintf("NOT as configured: %s was configured, but %s.", st.Configured, strings.Join(st.Reasons, ", and ")))
	}
	if len(st.Weakened) > 0 {
		out = append(out, "WEAKENED: "+strings.Join(st.Weakened, "; ")+".")
	}
	switch st.Approval {
	case api.ApprovedByProfile:
		out = append(out, "No person was asked: permissions.profile is auto-approve.")
	case api.ApprovedByCredential:
		out = append(out, "No person was asked: the credential allows it.")
	case api.ApprovedByOperator:
		out = append(out, "The operator's own credential asked for it.")
	}
	return clean(strings.Join(out, " "))
}

func backendWords(kind string) string {
	switch kind {
	case "docker":
		return "a container"
	case "host":
		return "the sandbox of the user's operating system"
	case "wasm":
		return "WebAssembly"
	}
	return kind
}

// failure is an error as an answer: the model can read it and act on it.
func failure(err error) *sdk.CallToolResult {
	p := problemOf(err)
	var b strings.Builder
	fmt.Fprintf(&b, "Not done: %s.", strings.TrimSuffix(clean(firstOf(p.Detail, strings.ToLower(p.Title))), "."))
	for _, f := range p.Errors {
		fmt.Fprintf(&b, "\n- %s: %s", clean(f.Location), clean(f.Message))
	}
	if p.Remedy == "brig session list" { // no command that a model has
		b.WriteString("\nWhat to do: leave session out to use your own, or take another name.")
	} else if p.Remedy != "" {
		fmt.Fprintf(&b, "\nWhat to do: %s.", strings.TrimSuffix(clean(p.Remedy), "."))
	}
	if p.RetryAfter > 0 {
		fmt.Fprintf(&b, "\nTry again after %d s.", p.RetryAfter)
	}
	fmt.Fprintf(&b, "\nProblem: %s", p.Code)
	if p.Instance != "" {
		fmt.Fprintf(&b, " (%s)", clean(p.Instance))
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: b.String()}}}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// problemOf is err as a problem; what is none is a fault of brig.
func problemOf(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, errCallTime) {
		return api.NewProblem(api.CodeDeadline, "it took longer than a call may take", "call again; see sandbox_status if it stays so")
	}
	return api.NewProblem(api.CodeInternal, err.Error(), "")
}
