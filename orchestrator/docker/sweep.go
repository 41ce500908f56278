package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"brig/orchestrator/sandbox"
)

// Sweep removes the containers of an owner, in whatever state, that keep does not
// approve of. keep gets the instance label, "<process>-c<number>": the prefix is
// the token of the process that made it. What this very process made or adopted is
// not swept. A container with a lease is no exception: whoever wants it back keeps it.
func (b *Backend) Sweep(ctx context.Context, owner string, keep func(sandbox.InstanceID) bool) (int, error) {
	e, err := b.current(ctx)
	if err != nil {
		return 0, err
	}
	list, err := e.cli.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner+"="+owner)),
	})
	if err != nil {
		return 0, b.orGone(ctx, e, fmt.Errorf("list the containers of owner %s: %w", owner, err))
	}
	removed := 0
	left := &sandbox.LeftBehind{}
	for _, c := range list {
		// The filter is the engine's; whose it is decides over a removal, so look again.
		if _, adopted := b.adopted.Load(c.ID); adopted || c.Labels[labelOwner] != owner || c.Labels[labelProcess] == b.options.Process || keep(sandbox.InstanceID(c.Labels[labelInstance])) {
			continue
		}
		x := &box{engine: e, name: c.ID, id: c.ID}
		if err := x.remove(ctx); err != nil {
			left.What = append(left.What, "container "+c.ID[:min(12, len(c.ID))])
			left.Err = errors.Join(left.Err, err)
			continue
		}
		removed++
	}
	if left.Err != nil {
		return removed, left
	}
	return removed, nil
}
