package service

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"brig/orchestrator/api"
	"brig/orchestrator/store"
)

func (v *view) Export(ctx context.Context, session string, f api.ExportFormat) (io.ReadCloser, error) {
	x, w, err := v.files(ctx, session)
	if err != nil {
		return nil, err
	}
	e := &export{
		name: x.name, session: x.id, when: time.Now().UTC(),
		each: func(do func(store.Run) error) error { return v.s.options.Store.EachRun(ctx, x.id, do) },
	}
	var write func(io.Writer) error
	switch f {
	case api.Notebook:
		write = e.notebook
	case api.Script:
		write = e.script
	case api.Bundle:
		p, err := lookBelow(w, "")
		if err != nil {
			return nil, err
		}
		write = func(out io.Writer) error { return e.bundle(out, p) }
	default:
		return nil, api.NewProblem(api.CodeInvalid, "there is no such format of exports", "ask for ipynb, py or zip")
	}
	return produce(ctx, func(out io.Writer) error {
		err := write(out)
		if errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil {
			return nil // whoever read it has left, or has all of it
		}
		return v.s.problem(err)
	}), nil
}

// export is what really ran in a session, in its order. What never began is not
// in it: it changed nothing.
type export struct {
	name, session string
	when          time.Time
	each          func(do func(store.Run) error) error
}

// cells passes every run that began, with its source.
func (e *export) cells(do func(number int, r api.Run, source string) error) error {
	number := 0
	return e.each(func(row store.Run) error {
		r := wholeOf(row)
		if r.Started == nil {
			return nil
		}
		number++
		return do(number, r, strings.ToValidUTF8(string(row.Source), "\uFFFD"))
	})
}

// heading says what the export is, one line each.
func (e *export) heading() []string {
	return []string{
		fmt.Sprintf("What ran in the brig session %s, in its order.", e.name),
		fmt.Sprintf("Exported %s; session id %s.", e.when.Format(time.RFC3339), e.session),
	}
}

// remarks are what a person has to know about a run beyond its outputs.
func remarks(r api.Run) []string {
	var out []string
	where := ""
	if r.Stamp != nil {
		where = ", " + r.Stamp.Line
	}
	file := ""
	if r.Filename != "" {
		file = ", file " + line(r.Filename)
	}
	out = append(out, fmt.Sprintf("%s, %s%s%s", r.ID, r.Started.Format(time.RFC3339), file, line(where)))
	if r.State == api.RunEnded && r.Cause != "ok" {
		ended := "ended: " + r.Cause
		switch {
		case r.Exception != nil:
			ended += ", " + line(r.Exception.Name+": "+r.Exception.Message)
		case r.ExitStatus != nil:
			ended += fmt.Sprintf(" %d", *r.ExitStatus)
		}
		out = append(out, ended)
	}
	if r.State != api.RunEnded {
		out = append(out, "not ended yet")
	}
	if r.Detail != "" {
		out = append(out, line(r.Detail))
	}
	if r.Variables == "lost" {
		out = append(out, "the interpreter is a fresh one since: variables were lost")
	}
	return out
}

// line is text that takes one line, shortened. Control characters are blanks, and
// what shows nothing itself but changes how the rest looks, such as what turns the
// direction of writing, is escaped.
func line(text string) string {
	const most = 500
	short := false
	if runes := []rune(text); len(runes) > most {
		text, short = string(runes[:most]), true
	}
	var b strings.Builder
	for _, c := range text {
		switch {
		case unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp):
			b.WriteByte(' ')
		case unicode.Is(unicode.Cf, c):
			fmt.Fprintf(&b, "\\u%04x", c)
		default:
			b.WriteRune(c)
		}
	}
	if short {
		b.WriteString("…")
	}
	return b.String()
}

// script is Python source with the cells of an editor between the runs.
func (e *export) script(out io.Writer) error {
	var b strings.Builder
	for _, l := range e.heading() {
		fmt.Fprintf(&b, "# %s\n", line(l))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	return e.cells(func(number int, r api.Run, source string) error {
		var b strings.Builder
		fmt.Fprintf(&b, "\n# %%%% [%d]\n", number)
		for _, l := range remarks(r) {
			fmt.Fprintf(&b, "# %s\n", l)
		}
		text := strings.TrimRight(source, "\n")
		if uncompiled(r) { // one such cell, and nothing of the script would run
			b.WriteString("# this was no Python that compiles, so it is a comment here:\n")
			text = "# " + strings.ReplaceAll(strings.ReplaceAll(text, "\r", "\n"), "\n", "\n# ")
		}
		b.WriteString(text)
		b.WriteString("\n")
		_, err := io.WriteString(out, b.String())
		return err
	})
}

// uncompiled says that a run ended because its source could not be compiled: then
// nothing of it ran. A SyntaxError that code met on its way has a frame of that code.
func uncompiled(r api.Run) bool {
	x := r.Exception
	return x != nil && len(x.Frames) == 0 && (x.Name == "SyntaxError" || x.Name == "IndentationError" || x.Name == "TabError")
}

// bundle is the notebook, the script, and the session's files below files/.
func (e *export) bundle(out io.Writer, p *pick) error {
	to := newZipPacker(out)
	for _, one := range []struct {
		name  string
		write func(io.Writer) error
	}{{e.name + ".ipynb", e.notebook}, {e.name + ".py", e.script}} {
		w, err := to.CreateHeader(&zip.FileHeader{Name: one.name, Method: zip.Deflate, Modified: e.when})
		if err != nil {
			return err
		}
		if err := one.write(w); err != nil {
			return err
		}
	}
	if err := p.packInto(to, "files"); err != nil {
		return err
	}
	return p.finish(to)
}
