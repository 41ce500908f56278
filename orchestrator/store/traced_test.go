package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"brig/orchestrator/audit"
)

// traceVar tells a copy of this test binary to do each thing once and to say when it is done.
const traceVar = "BRIG_STORE_TRACE_DIR"

// traced does what is acknowledged as durable, and two things that are not.
func traced(dir string) error {
	ctx := context.Background()
	say := func(what string, err error) {
		if err != nil {
			fmt.Printf("failed %s: %v\n", what, err)
			return
		}
		fmt.Printf("done %s\n", what)
	}
	s, _, err := Open(ctx, Options{Dir: dir, Owner: ownerA, Process: procA})
	if err != nil {
		return err
	}
	say("open", nil)
	l, _, err := audit.Open(ctx, audit.Options{Dir: filepath.Join(dir, "audit"), SegmentBytes: 1500, Recall: s.AuditHead, Keep: s.SetAuditHead})
	if err != nil {
		return err
	}
	add := func(id string, key *Key, durable bool) error {
		_, err := s.AddRun(ctx, run(id, "s1"), key, durable)
		return err
	}
	entry := audit.Entry{Kind: audit.KindSession, Actor: "agent", Data: audit.SessionData{Event: "opened", Session: "s1"}}
	at := time.Now()
	say("add a session", s.Add(ctx, row("s1")))
	say("bind", s.Bind(ctx, instance("s1")))
	say("add a run soon", add("r0", nil, false))
	say("end a run", s.EndRun(ctx, ended(run("r0", "s1"))))
	say("add a keyed run", add("r1", &Key{"agent", "k", sha256.Sum256(nil)}, false))
	say("add a durable run", add("r2", nil, true))
	say("put a dataset", s.PutDataset(ctx, Dataset{Session: "s1", Name: "d", Registered: at}))
	say("remove a dataset", s.RemoveDataset(ctx, "s1", "d"))
	say("put a token", s.PutToken(ctx, Token{"s1", [32]byte{1}, at}))
	say("put a self-test", s.PutSelftest(ctx, Selftest{ID: "t", State: SelftestEnded, Started: at}))
	say("extend", s.Extend(ctx, "s1", time.Hour, at))
	for n := range 8 { // some of them in new segments
		_, err = l.Append(ctx, entry)
		say(fmt.Sprint("append ", n), err)
	}
	_, err = l.Note(ctx, entry)
	say("note", err)
	say("flush", l.Flush(ctx))
	say("lose", s.Lose(ctx, "s1", "lost"))
	say("remove", s.Remove(ctx, "s1"))
	say("close the log", l.Close())
	return s.Close()
}
