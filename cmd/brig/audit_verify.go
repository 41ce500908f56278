package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/store"
)

func (p *program) auditVerifyCommand() *cobra.Command {
	var head string
	asJSON := false
	c := &cobra.Command{
		Use:   "verify",
		Short: "Whether the audit log's chain holds: nothing altered, cut off or removed",
		Long: `Read the whole audit log and check every hash, every number and every line's form,
and hold its end against the heads that are kept in a file beside it and in the
session store.

Who can write these files can write a whole new log with them. A head that you
have noted elsewhere, from an earlier verify, shows that: give it with --head.

Exit status 0 if the chain holds, 1 if it does not.`,
		Example: `  brig audit verify
  brig audit verify --head 1042:9f86d0…`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.auditVerify(c.Context(), head, asJSON) },
	}
	c.Flags().Var(once("--head", &word{value: &head, flag: "head"}), "head", "an earlier head, `NUMBER:HASH`, which has to be in the chain")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// verifyAnswer is the one object of "brig audit verify --json".
type verifyAnswer struct {
	audit.Verdict
	Holds    bool   `json:"holds"`
	Sentence string `json:"sentence"`
	HeadText string `json:"head_text"` // for --head
}

func (p *program) auditVerify(ctx context.Context, head string, asJSON bool) error {
	paths, err := config.FindPaths(p.lookup)
	if err != nil {
		return err
	}
	var anchors []audit.Anchor
	add := func(name, text string) error {
		h, err := audit.ParseHead(text)
		if err == nil && h.Number > 0 {
			anchors = append(anchors, audit.Anchor{Name: name, Head: h})
		}
		return err
	}
	if err := add("the head given with --head", head); err != nil {
		return usage("brig audit verify", "%q: %s", head, err)
	}
	unread := ""
	kept, err := store.LookAuditHead(ctx, paths.State)
	if err != nil {
		unread = "the head in the session store could not be read: " + err.Error()
	} else if err := add("the session store", kept); err != nil {
		unread = "the head in the session store is damaged"
	}
	v, err := audit.Verify(ctx, auditDir(paths), anchors...)
	if err != nil {
		return err
	}
	if unread != "" {
		v.Breaks = append(v.Breaks, audit.Break{Reason: unread})
	}
	if asJSON {
		if err := p.printJSON(verifyAnswer{v, v.Holds(), v.Sentence(), v.Head.String()}); err != nil {
			return err
		}
	} else {
		p.printChain(v)
		if unread == "" && kept == "" && v.Lines > 0 {
			fmt.Fprintln(p.tui.stdout, "not held against the session store, which knows no head: only brig up keeps one there")
		}
	}
	if !v.Holds() {
		return ended(exitFound)
	}
	return nil
}

func (p *program) printChain(v audit.Verdict) {
	out := p.tui.stdout
	if v.Holds() {
		fmt.Fprintln(out, escapeLine(v.Sentence()))
	} else {
		fmt.Fprintln(out, "the chain does not hold:")
		for _, b := range v.Breaks {
			fmt.Fprintln(out, "  "+escapeLine(b.Reason))
		}
		if v.More > 0 {
			fmt.Fprintf(out, "  and %s more\n", count(v.More, "break"))
		}
	}
	fmt.Fprintf(out, "%s in %s of %s\n", count(int(v.Lines), "line"), count(v.Segments, "file"), escapeLine(v.Dir))
	for _, a := range v.Anchors {
		fmt.Fprintf(out, "held against %s\n", escapeLine(a))
	}
	if v.Lines > 0 {
		fmt.Fprintf(out, "head %s (note it elsewhere; later: brig audit verify --head %[1]s)\n", v.Head)
	}
}
