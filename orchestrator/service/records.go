package service

import (
	"context"
	"encoding/json"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
)

// outputs is what a record keeps beside the summary of a run.
type outputs struct {
	Stdout   api.Output    `json:"stdout"`
	Stderr   api.Output    `json:"stderr"`
	Displays []api.Display `json:"displays"`
}

// recordKept is how much of each stream stands in the record of a run whose outputs
// are larger than a record takes, in bytes.
const recordKept = 512 << 10

// recordEnd writes down how a run ended. It is on the disk when recordEnd returns.
// Of outputs that are too large for a record, it keeps less, and r's summary says so.
func (s *Service) recordEnd(r *run, final *api.Run, st orchestrator.Stamp) error {
	record, out := *final, outputs{final.Stdout, final.Stderr, final.Displays}
	text := mustJSON(out)
	if len(text) > store.MaxOutputs {
		record.DisplaysDropped, out.Displays = len(out.Displays)+record.DisplaysDropped, []api.Display{}
		text = mustJSON(out)
	}
	if len(text) > store.MaxOutputs {
		out.Stdout, out.Stderr = shortened(r.stdout, out.Stdout), shortened(r.stderr, out.Stderr)
		record.Stdout, record.Stderr = out.Stdout, out.Stderr
		text = mustJSON(out)
	}
	ctx, cancel := bounded(context.Background(), recordBound)
	defer cancel()
	err := s.options.Store.EndRun(ctx, store.Run{
		ID: final.ID, Ended: *final.Ended, Cause: final.Cause, Summary: mustJSON(brief(record)), Outputs: text,
	})
	if err != nil {
		s.tally.storeFailed()
		s.options.Log.Error().Err(err).Str("run", final.ID).Msg("the end of a run could not be recorded")
	}
	if auditErr := s.witness(r, final, st); err == nil {
		err = auditErr
	}
	return err
}

func shortened(k kept, o api.Output) api.Output {
	c := k.shorten(recordKept, wire.Count{Total: o.TotalBytes, Kept: o.KeptBytes, Dropped: o.DroppedBytes, Incomplete: o.Incomplete})
	return k.output(c)
}

// wholeOf is a run as it is recorded.
func wholeOf(row store.Run) api.Run {
	var r api.Run
	if err := json.Unmarshal(row.Summary, &r); err != nil || r.ID == "" {
		// Of a version that wrote it otherwise: what the store itself knows is still true.
		r = api.Run{ID: row.ID, Session: row.Session, State: api.RunQueued, Created: row.Created.UTC(), Cause: row.Cause}
		if !row.Ended.IsZero() {
			r.State, r.Ended = api.RunEnded, moment(row.Ended)
		}
	}
	if r.State == api.RunQueued && !row.Begun.IsZero() {
		r.State, r.Started = api.RunRunning, moment(row.Begun)
	}
	var out outputs
	if len(row.Outputs) > 0 && json.Unmarshal(row.Outputs, &out) == nil {
		r.Stdout, r.Stderr, r.Displays = out.Stdout, out.Stderr, out.Displays
	}
	r.Displays = notNil(r.Displays)
	return r
}

// endLost gives every run that a dead brig had in hand its end: nobody saw it. stamps
// are of the instances that runs were under way in. Another one that had begun had
// ended too, perhaps in an earlier instance, and only its record was not written.
func (s *Service) endLost(ctx context.Context, stamps map[string]orchestrator.Stamp) {
	open, err := s.options.Store.OpenRuns(ctx)
	if err != nil {
		s.trouble("the runs of earlier brigs could not be read: " + err.Error())
		return
	}
	for _, row := range open {
		if row.Process == s.options.Store.Process() || s.options.Alive != nil && s.options.Alive(row.Process) {
			continue
		}
		r := wholeOf(row)
		now := time.Now()
		r.State, r.Ended, r.Cause = api.RunEnded, moment(now), string(sandbox.BackendLost)
		r.Detail = "brig ended while the run waited: as far as is on record, it never began"
		st := s.nothing(row.Name)
		if !row.Begun.IsZero() {
			r.Started = moment(row.Begun)
			r.Detail = "brig ended before the end of the run was on record; it had begun, and its end was not seen"
			r.Stdout.Incomplete, r.Stderr.Incomplete = true, true
			st.Containment = "containment unknown"
			if known, ok := stamps[row.ID]; ok {
				st = known
			}
		}
		r.Stamp = s.stamped(st, approvalOf(row.Caller))
		err := s.options.Store.EndRun(ctx, store.Run{
			ID: row.ID, Ended: now, Cause: r.Cause, Summary: mustJSON(brief(r)), Outputs: mustJSON(outputs{r.Stdout, r.Stderr, r.Displays}),
		})
		if err != nil {
			s.trouble("run " + row.ID + " of an earlier brig could not be given its end: " + err.Error())
			continue
		}
		s.note(audit.KindRun, "brig", audit.RunData{
			Event: "ended", Run: row.ID, Session: row.Session, Name: row.Name, Code: audit.Code{SHA256: r.CodeSHA256, Bytes: int(r.CodeBytes)}, Cause: r.Cause, Detail: r.Detail, Where: whereOf(st),
		})
	}
}
