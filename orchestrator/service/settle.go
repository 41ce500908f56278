package service

import (
	"context"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/store"
)

// sweepBound is how long removing what dead brigs left may take at the start.
const sweepBound = 2 * time.Minute

// settle sees to what earlier brigs left: it goes on with their sessions, gives
// their runs an end, and removes the rest.
func (s *Service) settle() {
	if s.options.Alone {
		close(s.settled)
		return
	}
	under, stamps := s.underWay(), map[string]orchestrator.Stamp{}
	taken, errs := s.options.Orchestrator.Adopt(s.life)
	for _, live := range taken {
		i := live.Info()
		if run := under[i.ID]; run != "" {
			stamps[run] = i.Stamp // before anybody can run something in another instance
		}
		if err := s.recallDatasets(s.life, live); err != nil {
			s.trouble(err.Error())
		}
		s.register(&session{id: i.ID, name: i.Name, creator: i.Creator, approval: approvalOf(i.Creator), live: live})
		s.tally.adopted()
		s.note(audit.KindSession, "brig", audit.SessionData{
			Event: "adopted", Session: i.ID, Name: i.Name, Creator: i.Creator, Detail: i.Note, Where: whereOf(i.Stamp),
		})
	}
	for _, err := range errs {
		s.trouble(err.Error())
	}
	if s.life.Err() == nil {
		s.endLost(s.life, stamps)
	}
	close(s.settled)
	ctx, cancel := context.WithTimeout(s.life, sweepBound)
	defer cancel()
	swept, err := s.options.Orchestrator.Sweep(ctx)
	s.tally.reaped(swept.Instances)
	if err != nil && s.life.Err() == nil {
		s.trouble("what an earlier brig left could not be removed: " + err.Error())
	}
	if swept.Any() {
		s.options.Log.Info().Interface("instances", swept.Instances).Int("sessions", swept.Sessions).Msg("removed what an earlier brig left")
	}
}

// underWay are the runs that were under way when a brig ended, by their sessions.
func (s *Service) underWay() map[string]string {
	rows, err := s.options.Store.Sessions(s.life)
	if err != nil {
		s.trouble("the sessions of earlier brigs could not be read: " + err.Error())
	}
	out := map[string]string{}
	for _, row := range rows {
		if row.State == store.Running {
			out[row.ID] = string(row.Run)
		}
	}
	return out
}

// approvalOf is the approval that goes with a credential.
func approvalOf(creator string) api.Approval {
	if creator == operatorID {
		return api.ApprovedByOperator
	}
	return api.ApprovedByCredential
}

// troubleMost bounds how many problems are remembered.
const troubleMost = 32

// trouble remembers what is wrong with this brig, for its status.
func (s *Service) trouble(text string) {
	s.options.Log.Warn().Msg(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) < troubleMost {
		s.problems = append(s.problems, text)
	}
}
