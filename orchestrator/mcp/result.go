package mcp

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// outcome is the structured content of a run.
type outcome struct {
	Run       string   `json:"run"`
	Session   string   `json:"session"`
	State     string   `json:"state"`
	Cause     string   `json:"cause,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Exit      *int     `json:"exit_status,omitempty"`
	Result    string   `json:"result,omitempty"`
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	OutBytes  int64    `json:"stdout_bytes"`
	ErrBytes  int64    `json:"stderr_bytes"`
	LeftOut   int64    `json:"left_out_bytes"`
	Exception string   `json:"exception,omitempty"`
	Traceback string   `json:"traceback,omitempty"`
	Displays  []string `json:"displays,omitempty"`
	Images    int      `json:"images"`
	Variables string   `json:"variables,omitempty"`
	ElapsedMs float64  `json:"elapsed_ms"`
	Links     []string `json:"links,omitempty"`
	LogPath   string   `json:"log_path,omitempty"`
	Note      string   `json:"note,omitempty"`
	Sandbox   sandbox  `json:"sandbox"`
}

type sandbox struct {
	Words       string `json:"words"`
	Backend     string `json:"backend,omitempty"`
	Containment string `json:"containment,omitempty"`
	Degraded    bool   `json:"degraded"`
	Uncontained bool   `json:"uncontained"`
	Approval    string `json:"approval,omitempty"`
}

func sandboxOf(st *api.Stamp) sandbox {
	s := sandbox{Words: stampWords(st)}
	if st != nil {
		s.Backend, s.Containment, s.Degraded, s.Uncontained, s.Approval = st.Backend, st.Containment, st.Degraded, st.Uncontained, string(st.Approval)
	}
	return s
}

// answer is a result on its way: what brig says, what the code said, images and links.
type answer struct {
	outcome
	r      api.Run
	images []sdk.Content
	links  []sdk.Content
	bytes  int // of images
	room   int // for them
}

// ended is the answer for a run that has ended.
func (c *call) ended(r api.Run) *sdk.CallToolResult {
	a := c.begin(r)
	a.Cause, a.Detail, a.Exit, a.Variables, a.ElapsedMs = r.Cause, clean(r.Detail), r.ExitStatus, r.Variables, r.ElapsedMs
	a.outputs(r.Stdout, r.Stderr)
	if r.Log != nil {
		a.LogPath = clean(r.Log.Path)
		if a.LeftOut > 0 {
			a.link(fileURI(r.Session, r.Log.Path), "full output", "text/plain", r.Log.Bytes)
		}
	}
	if e := r.Exception; e != nil {
		a.Exception = cut(strings.TrimSuffix(e.Name+": "+e.Message, ": "), maxShown)
		a.Traceback = cut(e.Traceback, maxTraceback)
	}
	for i, d := range r.Displays {
		a.display(i, d)
	}
	var notes []string
	if a.Note != "" {
		notes = append(notes, a.Note)
	}
	if !c.turned {
		if note := c.s.memory.remarked(c.peer, r.Session); note != "" {
			notes = append(notes, note)
		}
	}
	if r.DisplaysDropped > 0 {
		notes = append(notes, fmt.Sprintf("%d more figures or results were too many or too large to be kept", r.DisplaysDropped))
	}
	if len(r.NotCarried) > 0 {
		notes = append(notes, "files that could not travel between workspace and sandbox: "+cut(strings.Join(r.NotCarried, ", "), maxShown))
	}
	a.Note = strings.Join(notes, "; ")
	return a.result()
}

// going is the answer for a run that goes on, with the output that was seen.
func (c *call) going(r api.Run, s *seen) *sdk.CallToolResult {
	a := c.begin(r)
	a.outputs(s.stdout.output(), s.stderr.output())
	if r.Started != nil {
		a.ElapsedMs = float64(time.Since(*r.Started).Milliseconds())
	}
	return a.result()
}

// room is how many bytes of images an answer may hold. Clients read at most 1 MiB of
// an event of a stream, as base64 and with the rest of the answer.
func (c *call) room() int {
	if c.req.Extra != nil && c.req.Extra.Header != nil {
		return maxStreamed
	}
	return maxImage
}

func (c *call) begin(r api.Run) *answer {
	a := &answer{r: r, room: c.room()}
	a.Run, a.Session, a.State, a.Note, a.Sandbox = r.ID, r.Session, string(r.State), c.note, sandboxOf(r.Stamp)
	if r.Stamp == nil && r.State != api.RunEnded {
		a.Sandbox.Words = "What contains the code is said with the result."
	}
	return a
}

func (a *answer) outputs(stdout, stderr api.Output) {
	ended := a.r.State == api.RunEnded
	one := func(o api.Output, stream string, limit int) string {
		where := ""
		if ended {
			where = "; more of it: " + streamURI(a.r.ID, stream)
		}
		if a.r.Log != nil && a.r.Log.Error == "" {
			where = fmt.Sprintf("; read_file %q has more", clean(a.r.Log.Path))
		}
		s := bound(o, limit, where)
		a.LeftOut += s.leftOut
		if s.leftOut > 0 && ended {
			a.link(streamURI(a.r.ID, stream), stream, "text/plain", o.KeptBytes)
		}
		return s.text
	}
	a.Stdout, a.OutBytes = one(stdout, "stdout", maxStdout), stdout.TotalBytes
	a.Stderr, a.ErrBytes = one(stderr, "stderr", maxStderr), stderr.TotalBytes
}

func (a *answer) link(uri, name, mime string, bytes int64) {
	a.links = append(a.links, &sdk.ResourceLink{URI: uri, Name: name, MIMEType: mime, Size: &bytes})
	a.Links = append(a.Links, uri)
}

// display shows one thing: as an image where it is one that models take, otherwise
// as text. What is neither, or too large, is linked.
func (a *answer) display(i int, d api.Display) {
	for _, p := range d.Data {
		if !pictured(p.MIME) || len(p.Base64) == 0 {
			continue
		}
		if len(a.images) >= maxImages || a.bytes+len(p.Base64) > a.room {
			a.link(displayURI(a.r.ID, i), d.Role, p.MIME, int64(len(p.Base64)))
			return
		}
		a.images = append(a.images, &sdk.ImageContent{Data: p.Base64, MIMEType: p.MIME})
		a.bytes += len(p.Base64)
		a.Images++
		return
	}
	for _, mime := range []string{"text/plain", "text/markdown", "application/json", "text/latex", "text/html"} {
		for _, p := range d.Data {
			if p.MIME != mime || p.Text == "" {
				continue
			}
			text := cut(p.Text, maxShown)
			switch {
			case d.Role == "result" && a.Result == "":
				a.Result = text
			case len(a.Displays) < maxDisplays:
				a.Displays = append(a.Displays, text)
			default:
				a.link(displayURI(a.r.ID, i), d.Role, mime, int64(len(p.Text)))
			}
			return
		}
	}
	if len(d.Data) > 0 {
		a.link(displayURI(a.r.ID, i), d.Role, d.Data[0].MIME, int64(len(d.Data[0].Text)+len(d.Data[0].Base64)))
	}
}

// pictured are the kinds of images that models take.
func pictured(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// result puts the answer together. What brig says is the first text and stands alone:
// no output can look like a part of it.
func (a *answer) result() *sdk.CallToolResult {
	content := []sdk.Content{&sdk.TextContent{Text: a.says()}}
	text := func(title, s string) {
		if s != "" {
			content = append(content, &sdk.TextContent{Text: title + ":\n" + s})
		}
	}
	text("stdout", a.Stdout)
	text("stderr", a.Stderr)
	text("result", a.Result)
	for _, d := range a.Displays {
		text("display", d)
	}
	text("traceback", a.Traceback)
	content = append(content, a.images...)
	content = append(content, a.links...)
	broken := a.Cause == "refused" || a.Cause == "backend-lost" || a.Cause == "internal"
	return &sdk.CallToolResult{Content: content, StructuredContent: a.outcome, IsError: broken}
}

// structuredOf is the data of an answer, if there is one.
func structuredOf(r *sdk.CallToolResult) any {
	if r == nil {
		return nil
	}
	return r.StructuredContent
}

func (a *answer) says() string {
	var b strings.Builder
	switch {
	case a.State == string(api.RunEnded):
		fmt.Fprintf(&b, "Ended after %s: %s", seconds(a.ElapsedMs), a.Cause)
		if a.Exit != nil {
			fmt.Fprintf(&b, ", status %d", *a.Exit)
		}
		if a.Exception != "" {
			fmt.Fprintf(&b, ": %s", a.Exception)
		}
		b.WriteString(".")
		if a.Detail != "" && a.Cause != "ok" && a.Cause != "exception" && a.Cause != "interrupted" {
			b.WriteString(" " + strings.TrimSuffix(a.Detail, ".") + ".")
		}
		if a.Variables != "" && a.Variables != "kept" {
			b.WriteString(" The interpreter's variables are gone; files are there.")
		}
	case a.State == string(api.RunQueued):
		b.WriteString("Not begun: earlier runs of the session come first. Ask again with run_wait, or give up with run_cancel.")
	default:
		fmt.Fprintf(&b, "Still running after %s. Ask again with run_wait, or end it with run_cancel.", seconds(a.ElapsedMs))
	}
	fmt.Fprintf(&b, "\nRun %s, session %s.", a.Run, a.Session)
	if a.OutBytes+a.ErrBytes == 0 && a.Result == "" && a.Images == 0 && a.State == string(api.RunEnded) {
		b.WriteString(" It printed nothing.")
	}
	if a.LeftOut > 0 {
		fmt.Fprintf(&b, " Of %s output, %s are left out here.", size(a.OutBytes+a.ErrBytes), size(a.LeftOut))
	}
	if a.Note != "" {
		b.WriteString("\nNote: " + a.Note + ".")
	}
	b.WriteString("\nSandbox: " + a.Sandbox.Words)
	return b.String()
}

func seconds(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

func streamURI(run, stream string) string { return "brig://runs/" + url.PathEscape(run) + "/" + stream }

func displayURI(run string, i int) string {
	return fmt.Sprintf("brig://runs/%s/displays/%d", url.PathEscape(run), i)
}

func fileURI(session, path string) string {
	return (&url.URL{Scheme: "brig", Host: "sessions", Path: "/" + session + "/files/" + path}).String()
}
