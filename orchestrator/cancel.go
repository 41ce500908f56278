package orchestrator

import (
	"context"
	"errors"
)

// CancelCause is a context's cause that says why a run is cancelled, in a
// sentence of its own: "it was cancelled by the operator". Every other cause means
// that the caller went away.
type CancelCause string

func (c CancelCause) Error() string { return string(c) }

// CancelledBy words why the context of a run ended; when is put behind the reason,
// such as " before it began".
func CancelledBy(ctx context.Context, when string) string {
	var why CancelCause
	if errors.As(context.Cause(ctx), &why) {
		return string(why) + when
	}
	return "the caller went away" + when + ": " + context.Cause(ctx).Error()
}
