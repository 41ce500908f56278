package service

import (
	"context"
	"errors"

	"brig/orchestrator/api"
)

// streamsMost bounds the followers of all streams together.
const streamsMost = 4096

// following counts a follower in until done is called.
func (s *Service) following() (done func(), err error) {
	if s.streams.Add(1) > streamsMost {
		s.streams.Add(-1)
		return nil, retry(api.NewProblem(api.CodeTooMany, "too many event streams are open", ""), 10)
	}
	return func() { s.streams.Add(-1) }, nil
}

func (v *view) Follow(ctx context.Context, id string, after uint64, emit func(api.Event) error) error {
	r, recorded, err := v.findRun(ctx, id)
	if err != nil {
		return err
	}
	done, err := v.s.following()
	if err != nil {
		return err
	}
	defer done()
	if r != nil {
		return v.followed(ctx, r.events.follow(ctx, v, after, emit))
	}
	// Its events are no longer held: what they came to is in the record.
	end := api.Event{ID: after + 2, Kind: api.EventEnd, Time: recorded.Ended.UTC(), Data: mustJSON(wholeOf(recorded))}
	if err := emit(reset(after, end.ID)); err != nil {
		return err
	}
	return emit(end)
}

// followed words the end of a stream: an error of emit passes as it is.
func (v *view) followed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return v.s.problem(err)
	}
	return err
}

func (v *view) Watch(ctx context.Context, after uint64, emit func(api.Event) error) error {
	done, err := v.s.following()
	if err != nil {
		return err
	}
	defer done()
	if after == 0 {
		after = v.s.feed.first()
	}
	return v.followed(ctx, v.s.feed.follow(ctx, v, after, emit))
}
