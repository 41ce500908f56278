package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/store"
)

// segmentBytes is the size of one file of the audit log.
const segmentBytes = 8 << 20

// auditDir is where the audit log is.
func auditDir(p config.Paths) string { return filepath.Join(p.State, "audit") }

// openAudit opens the audit log for writing. db anchors its head a second time;
// nil: nothing does.
func openAudit(ctx context.Context, s settings, db *store.Store) (*audit.Log, audit.Report, error) {
	o := audit.Options{Dir: auditDir(s.Paths), SegmentBytes: segmentBytes, Segments: max(2, int(s.Config.Audit.Size/segmentBytes))}
	if db != nil {
		o.Recall, o.Keep = db.AuditHead, db.SetAuditHead
	}
	return audit.Open(ctx, o)
}

// retentionOf is what the settings say about records of runs.
func retentionOf(c config.Config) store.Retention {
	return store.Retention{PerSession: c.Records.Runs, Bytes: c.Records.Size, Age: c.Records.Age}
}

func (p *program) auditCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "audit",
		Short: "The audit log: who ran what where, and what weakened the containment",
		Long: `brig writes down who had what run, what contained it and how it ended, and
everything that widened or weakened the containment, before it was done. The log
is files of JSON lines, each with a hash over itself and the line before.

These verbs read the files themselves, whether a brig runs or not.`,
	})
	c.AddCommand(p.auditShowCommand(), p.auditVerifyCommand())
	return c
}

// auditShowOptions are the flags of "brig audit show".
type auditShowOptions struct {
	number              int
	kind, session, run  string
	event, since, until string
	json                bool
}

func (p *program) auditShowCommand() *cobra.Command {
	o := auditShowOptions{number: 50}
	c := &cobra.Command{
		Use:   "show",
		Short: "Lines of the audit log, the latest last",
		Example: `  brig audit show
  brig audit show -n 1000 --kind consent
  brig audit show --session sales --since 2h
  brig audit show --run 2f1c --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.auditShow(c.Context(), o) },
	}
	f := c.Flags()
	f.IntVarP(&o.number, "lines", "n", o.number, "the latest `N` lines that fit, at most 100000")
	f.StringVar(&o.kind, "kind", "", "only lines of this `KIND`: "+strings.Join(kindWords(), ", "))
	f.StringVar(&o.event, "event", "", "only lines about this `EVENT`, such as opened or ended")
	f.StringVar(&o.session, "session", "", "only lines about this `SESSION`, by name or id")
	f.StringVar(&o.run, "run", "", "only lines about the run with this `ID`")
	f.StringVar(&o.since, "since", "", "not before this `TIME`: 2026-11-30, 2026-11-30T08:00:00Z, or 2h for two hours ago")
	f.StringVar(&o.until, "until", "", "before this `TIME`")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	_ = c.RegisterFlagCompletionFunc("kind", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return kindWords(), cobra.ShellCompDirectiveNoFileComp
	}) // fails only for a flag that does not exist
	return c
}

func kindWords() []string {
	return []string{
		string(audit.KindRun), string(audit.KindSession), string(audit.KindResolution), string(audit.KindConsent), string(audit.KindToken),
		string(audit.KindLogin), string(audit.KindAuth), string(audit.KindSettings), string(audit.KindSelftest), string(audit.KindBrig), string(audit.KindLog),
	}
}

// mostLines is how many lines one call shows.
const mostLines = 100_000

func (p *program) auditShow(ctx context.Context, o auditShowOptions) error {
	if o.number < 1 || o.number > mostLines {
		return usage("brig audit show -n 1000", "-n is a number from 1 to %d", mostLines)
	}
	q := audit.Query{Kind: audit.Kind(o.kind), Event: o.event, Session: o.session, Run: o.run}
	if o.kind != "" && !slices.Contains(kindWords(), o.kind) {
		hint := "one of: " + strings.Join(kindWords(), ", ")
		if near := nearest(o.kind, kindWords()); near != "" {
			hint = "did you mean: --kind " + near
		}
		return usage(hint, "%q is no kind of line", o.kind)
	}
	var err error
	if q.Since, err = timeFlag("since", o.since); err != nil {
		return err
	}
	if q.Until, err = timeFlag("until", o.until); err != nil {
		return err
	}
	paths, err := config.FindPaths(p.lookup)
	if err != nil {
		return err
	}
	lines, err := latestLines(ctx, auditDir(paths), q, o.number)
	if err != nil {
		return err
	}
	if o.json {
		return p.printJSON(map[string]any{"dir": auditDir(paths), "lines": lines})
	}
	if len(lines) == 0 {
		p.tui.note("no line of the audit log fits; it is in %s", escapeLine(auditDir(paths)))
	}
	for _, x := range lines {
		fmt.Fprintln(p.tui.stdout, p.auditLine(x))
	}
	return nil
}

// latestLines are the latest n lines that fit, the earliest first.
func latestLines(ctx context.Context, dir string, q audit.Query, n int) ([]audit.Line, error) {
	lines := []audit.Line{}
	for len(lines) < n {
		q.Limit = min(n-len(lines), 1000)
		page, next, err := audit.Find(ctx, dir, q)
		if err != nil {
			return nil, err
		}
		lines = append(lines, page...)
		if q.Cursor = next; next == "" {
			break
		}
	}
	slices.Reverse(lines)
	return lines, nil
}

// timeFlag reads a time as people type it.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage("brig audit show --"+name+" 2h", "%q is no time for --%s: it takes a date, a date and a time, or for how long ago", text, name)
}
