package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"brig/orchestrator/sandbox"
)

const (
	// startTimeout bounds create, attach, start and the runner's greeting together, when
	// the caller's ctx does not. An engine that falls silent ends them sooner; see patience.
	startTimeout = 30 * time.Second
	// createGrace is how long an unwanted creation is waited for, so that it can be removed.
	createGrace = 4 * time.Second
	// undoTimeout bounds the removal of a container, also of one that a failed start left.
	undoTimeout = 6 * time.Second
)

// Prepare starts a container whose runner waits for its hello. The image is built
// first if the engine does not have the trusted one, which can take minutes.
func (b *Backend) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.attendedSpec(ctx, e, base, workspace)
	if err != nil {
		return nil, b.orGone(ctx, e, err)
	}
	disk, err := watchDisk(s)
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, stop := b.attend(caller, e, b.patience.start, false)
	defer stop()
	box, err := b.start(ctx, e, s)
	if errdefs.IsNotFound(err) { // somebody removed the image
		b.refs.Clear()
		if s.image, err = b.trusted(ctx, e, s.choice); err == nil {
			box, err = b.start(ctx, e, s)
		}
	}
	if err != nil {
		disk.close()
		return nil, b.orGone(caller, e, silenced(ctx, err))
	}
	box.disk = disk
	p, err := greet(ctx, e, s, box, workspace)
	if err != nil {
		if silent := silenced(ctx, err); errors.Is(silent, errSilent) {
			err = b.orGone(caller, e, silent)
		}
		return nil, err
	}
	return p, nil
}

// attendedSpec gives up an engine that falls silent while it is asked for the image.
// A build says by itself what it does.
func (b *Backend) attendedSpec(ctx context.Context, e *engine, base sandbox.Base, workspace string) (spec, error) {
	attended, stop := b.attend(ctx, e, b.patience.engine, true)
	defer stop()
	s, err := b.spec(attended, e, base, workspace)
	if cause := context.Cause(attended); err != nil && errors.Is(cause, errSilent) {
		return spec{}, cause // whatever the image's part made of it
	}
	return s, err
}

// silenced adds to the failure of attended work that its engine fell silent, if it did.
func silenced(attended context.Context, err error) error {
	if cause := context.Cause(attended); errors.Is(cause, errSilent) && !errors.Is(err, errSilent) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// orGone turns the failure of a call into the reason why the engine cannot be
// reached, if it cannot be reached any more.
func (b *Backend) orGone(ctx context.Context, e *engine, err error) error {
	var known *sandbox.Unavailable
	if errors.As(err, &known) {
		return err
	}
	if full := e.diskFull(err); full != nil {
		return full
	}
	if ctx.Err() != nil || isAnswer(err) {
		return err
	}
	b.forget(e)
	if _, gone := b.reachAgain(ctx); gone != nil {
		return gone
	}
	return err
}

// diskFull is the reason why the engine can make nothing, if it is its disk. An
// engine says so in words only: its error has no kind of its own.
func (e *engine) diskFull(err error) *sandbox.Unavailable {
	if !errdefs.IsInternal(err) && !errdefs.IsUnknown(err) || !strings.Contains(err.Error(), "no space left on device") {
		return nil
	}
	where := "its disk"
	if e.info.DockerRootDir != "" {
		where = "the disk that holds its " + printable(e.info.DockerRootDir)
	}
	return withCause(unavailable(e.endpoint, "engine-disk-full", nil, where+" is full", e.undoOr("docker system df")), err)
}

// isAnswer tells an error that the engine sent from one of the way to it.
func isAnswer(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errdefs.IsInvalidArgument(err) ||
		errdefs.IsInternal(err) || errdefs.IsPermissionDenied(err)
}

func (b *Backend) spec(ctx context.Context, e *engine, base sandbox.Base, workspace string) (spec, error) {
	a, err := e.accept(base)
	if err != nil {
		return spec{}, err
	}
	ref, err := b.trusted(ctx, e, a.image)
	if err != nil {
		return spec{}, err
	}
	placing := e.placing()
	where, err := placing.workspaceFor(workspace)
	if err != nil {
		return spec{}, err
	}
	id := fmt.Sprintf("%s-c%d", b.options.Process, b.count.Add(1))
	return spec{
		name: "brig-" + id, id: id, image: ref, choice: a.image, limits: base.Limits.WithDefaults(), runtime: a.runtime, workspace: where,
		user: placing.user, seccomp: a.profile, cpus: e.info.NCPU, podman: e.podman, lease: a.lease,
		sabotaged: b.options.sabotaged,
	}, nil
}

// box is one container, brig's end of its stream, and what else tells about it.
type box struct {
	engine   *engine
	patience patience
	until    time.Time // when its start is given up
	name     string
	id       string
	label    sandbox.InstanceID // what Sweep asks about
	stream   types.HijackedResponse
	out      *demux
	exited   *exitWatch
	told     *witness   // what the engine says by itself
	meter    *meter     // nil where the control groups cannot be read from here
	disk     *diskWatch // nil where the workspace has a size of its own
	renewing sync.WaitGroup
	after    func()   // nil, or what else is to be done in the end
	warnings []string // of the engine, about what it was asked to make
}

// start makes a container and starts it. Whatever fails, even without an answer,
// nothing with its name is left.
func (b *Backend) start(ctx context.Context, e *engine, s spec) (_ *box, err error) {
	release, err := b.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the engine took longer than %s", startTimeout))
	defer cancel()
	made := &box{engine: e, name: s.name, label: sandbox.InstanceID(s.id), patience: b.patience, until: time.Now().Add(startTimeout)}
	defer func() {
		if err != nil {
			err = errors.Join(err, made.undo(ctx))
		}
	}()
	if made.id, made.warnings, err = create(ctx, e, s, b.labels(s)); err != nil {
		return made, fmt.Errorf("create the container: %w", err)
	}
	if !e.podman {
		if made.stream, err = attach(ctx, e.cli, made.id); err != nil {
			return made, fmt.Errorf("attach to the container: %w", err)
		}
	}
	made.told = e.feed.follow(e.cli, made.id)
	made.exited = watchExit(ctx, e, made.id)
	if err := e.cli.ContainerStart(ctx, made.id, container.StartOptions{}); err != nil {
		return made, s.startFailure(err)
	}
	if e.podman {
		if made.stream, err = attach(ctx, e.cli, made.id); err != nil {
			return made, fmt.Errorf("attach to the container: %w", err)
		}
	}
	return made, nil
}

// create waits a while for an answer even when ctx has ended: a creation that is
// under way cannot be called back, and what is removed before it exists stays.
func create(ctx context.Context, e *engine, s spec, labels map[string]string) (id string, warnings []string, err error) {
	if ctx.Err() != nil {
		return "", nil, context.Cause(ctx)
	}
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	patience := time.AfterFunc(startTimeout+createGrace, cancel)
	defer patience.Stop()
	stop := context.AfterFunc(ctx, func() { patience.Reset(createGrace) })
	defer stop()
	config, host := s.config(labels), s.hostConfig()
	done, err := e.suit(host, s.seccomp)
	if err != nil {
		return "", nil, err
	}
	defer done()
	s.spoil(config, host)
	created, err := e.cli.ContainerCreate(asking, config, host, nil, nil, s.name)
	if ctx.Err() != nil {
		return created.ID, nil, context.Cause(ctx)
	}
	return created.ID, created.Warnings, err
}

// undo removes by name: after a create without an answer there is no id, and the
// engine may carry it out all the same.
func (x *box) undo(ctx context.Context) error {
	if x.stream.Conn != nil {
		x.stream.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	err := x.remove(ctx)
	x.free()
	if err != nil {
		return &sandbox.LeftBehind{What: []string{"container " + x.name}, Err: err}
	}
	return nil
}

// free gives back what brig holds for a container whose stream is closed.
func (x *box) free() {
	x.renewing.Wait()
	if x.exited != nil {
		x.exited.stop()
	}
	if x.told != nil {
		x.engine.feed.leave(x.id)
	}
	x.meter.close()
	x.disk.close()
	if x.after != nil {
		x.after()
	}
}

// remove kills and removes the container, and returns nil when it is gone.
func (x *box) remove(ctx context.Context) error {
	options := container.RemoveOptions{Force: true, RemoveVolumes: true}
	err := x.engine.cli.ContainerRemove(ctx, x.name, options)
	for times := 0; x.engine.ends(ctx, err, times); times++ {
		err = x.engine.cli.ContainerRemove(ctx, x.name, options)
	}
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err): // the engine is removing it already
		results, failures := x.engine.cli.ContainerWait(ctx, x.name, container.WaitConditionRemoved)
		select {
		case <-results:
			return nil
		case err := <-failures:
			if errdefs.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("wait for the container to be removed: %w", err)
		}
	default:
		return fmt.Errorf("remove the container: %w", err)
	}
}
