package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"brig/images"
)

// This file and build*.go make the backend an images.Builder.

// Machine says which engine this is.
func (b *Backend) Machine(ctx context.Context) (images.Machine, error) {
	e, err := b.current(ctx)
	if err != nil {
		return images.Machine{}, err
	}
	id := e.info.ID
	if id == "" { // some engines have none; then one address is one engine
		id = e.endpoint
	}
	return images.Machine{ID: id, Architecture: e.version.Arch}, nil
}

// FindImages lists the images with a label.
func (b *Backend) FindImages(ctx context.Context, label, value string) ([]images.Found, error) {
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	list, err := e.cli.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", label+"="+value))})
	if err != nil {
		return nil, b.orGone(ctx, e, err)
	}
	found := make([]images.Found, 0, len(list))
	for _, i := range list {
		found = append(found, images.Found{
			ID: i.ID, Tags: named(i.RepoTags), Labels: i.Labels, Created: time.Unix(i.Created, 0).UTC(), Size: i.Size,
		})
	}
	return found, nil
}

// named leaves out the name that engines give to what has none.
func named(tags []string) []string {
	return slices.DeleteFunc(tags, func(tag string) bool { return tag == "<none>:<none>" })
}

// Inspect describes an image on the engine.
func (b *Backend) Inspect(ctx context.Context, reference string) (images.Details, error) {
	e, err := b.current(ctx)
	if err != nil {
		return images.Details{}, err
	}
	found, err := e.cli.ImageInspect(ctx, reference)
	if errdefs.IsNotFound(err) {
		return images.Details{}, fmt.Errorf("%w: %s", images.ErrNoImage, reference)
	}
	if err != nil {
		return images.Details{}, b.orGone(ctx, e, err)
	}
	d := images.Details{ID: found.ID, Digests: found.RepoDigests, OS: found.Os, Architecture: found.Architecture}
	if c := found.Config; c != nil {
		d.Env, d.Labels, d.OnBuild = c.Env, c.Labels, c.OnBuild
		d.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	}
	return d, nil
}

// TagImage gives an image another name.
func (b *Backend) TagImage(ctx context.Context, id, name string) error {
	e, err := b.current(ctx)
	if err != nil {
		return err
	}
	if err := e.cli.ImageTag(ctx, id, name); err != nil {
		return b.orGone(ctx, e, err)
	}
	return nil
}

// RemoveImage removes a name, or an image that nothing uses.
func (b *Backend) RemoveImage(ctx context.Context, id string) error {
	e, err := b.current(ctx)
	if err != nil {
		return err
	}
	_, err = e.cli.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err):
		return fmt.Errorf("%w: %s", images.ErrInUse, oneLine(err.Error(), 300))
	}
	return b.orGone(ctx, e, err)
}

// Uses counts the containers of each image.
func (b *Backend) Uses(ctx context.Context) (map[string]int, error) {
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	list, err := e.cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, b.orGone(ctx, e, err)
	}
	uses := map[string]int{}
	for _, c := range list {
		uses[c.ImageID]++
	}
	return uses, nil
}
