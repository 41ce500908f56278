package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"brig/images"
)

// FindImages lists the images with a label, for package images.
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
			ID: i.ID, Tags: i.RepoTags, Labels: i.Labels, Created: time.Unix(i.Created, 0).UTC(), Size: i.Size,
		})
	}
	return found, nil
}

// ImageID resolves a reference on the engine.
func (b *Backend) ImageID(ctx context.Context, reference string) (string, error) {
	e, err := b.current(ctx)
	if err != nil {
		return "", err
	}
	found, err := e.cli.ImageInspect(ctx, reference)
	if errdefs.IsNotFound(err) {
		return "", fmt.Errorf("%w: %s", images.ErrNoImage, reference)
	}
	if err != nil {
		return "", b.orGone(ctx, e, err)
	}
	return found.ID, nil
}

// RemoveImage removes an image that nothing uses.
func (b *Backend) RemoveImage(ctx context.Context, id string) error {
	e, err := b.current(ctx)
	if err != nil {
		return err
	}
	_, err = e.cli.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Build uses the classic builder: it is on every engine from 20.10 on, it needs no
// session, and it says which step of how many it is at.
func (b *Backend) Build(ctx context.Context, r images.Request, progress func(images.Progress)) error {
	e, err := b.current(ctx)
	if err != nil {
		return err
	}
	args := map[string]*string{}
	for name, value := range r.Args {
		args[name] = &value
	}
	response, err := e.cli.ImageBuild(ctx, r.Context, build.ImageBuildOptions{
		Version: build.BuilderV1, Dockerfile: r.Dockerfile, Tags: []string{r.Tag}, BuildArgs: args,
		Remove: true, ForceRemove: true, PullParent: false,
	})
	if err != nil {
		return b.orGone(ctx, e, err)
	}
	defer response.Body.Close()
	return readBuild(response.Body, progress)
}

// buildFailed is what a build step said before it failed.
type buildFailed struct {
	step    string
	message string
	tail    []string
}

func (e *buildFailed) Error() string {
	text := e.message
	if e.step != "" {
		text = "in \"" + e.step + "\": " + text
	}
	if len(e.tail) > 0 {
		text += "\n  " + strings.Join(e.tail, "\n  ")
	}
	return text
}

const tailLines = 12

// buildMessage is one object of the stream that the engine answers a build with.
type buildMessage struct {
	Stream string `json:"stream"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// readBuild turns the engine's messages into progress and finds the failure.
func readBuild(r io.Reader, progress func(images.Progress)) error {
	if progress == nil {
		progress = func(images.Progress) {}
	}
	header := regexp.MustCompile(`^Step (\d+)/(\d+) : (.*)`)
	var now images.Progress
	failed := &buildFailed{}
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		var m buildMessage
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the engine's account of the build: %w", err)
		}
		if m.Error != nil {
			failed.message = printable(m.Error.Message)
			return failed
		}
		for _, line := range strings.FieldsFunc(m.Stream, func(r rune) bool { return r == '\n' || r == '\r' }) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			now.Text, now.Instruction = line, false
			if step := header.FindStringSubmatch(line); step != nil {
				now.Step, _ = strconv.Atoi(step[1])
				now.Total, _ = strconv.Atoi(step[2])
				now.Text, now.Instruction = step[3], true
				failed.step, failed.tail = printable(step[3]), nil
			} else if failed.tail = append(failed.tail, printable(line)); len(failed.tail) > tailLines {
				failed.tail = failed.tail[1:]
			}
			progress(now)
		}
	}
}
