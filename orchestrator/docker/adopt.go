package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"brig/images"
	"brig/orchestrator/runner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

const (
	// adoptTimeout bounds an adoption that the caller's ctx does not bound sooner.
	adoptTimeout = 30 * time.Second
	// answerTimeout is for the runner to prove the secret. It does nothing else at
	// that moment; one that does not know it never answers.
	answerTimeout = 8 * time.Second
	// softEnd and hardEnd are how long a run whose caller is gone may take to end,
	// first when asked to and then by force.
	softEnd = 2 * time.Second
	hardEnd = 5 * time.Second
	// wakeSignal has the runner listen for a new conversation. It obeys it from
	// outside of its process namespace only.
	wakeSignal = "SIGUSR1"
)

var _ sandbox.Adopter = (*Backend)(nil)

// Adopt takes up a container of this owner. It believes what the engine shows and
// what the runner proves, not what the caller remembers: the container must bear
// the owner's label and the hash of the very configuration that a.Base makes now,
// and the runner must know the secret, which no user code ever saw.
func (b *Backend) Adopt(ctx context.Context, a sandbox.Adoption) (sandbox.Instance, error) {
	if a.Base.Lease <= 0 || !secretForm().MatchString(a.Handle.Secret) {
		return nil, errors.New("adopt: the adoption describes no instance with a lease and a secret")
	}
	if !containerID().MatchString(a.Handle.Name) { // a name or a part of an id could find another one
		return nil, fmt.Errorf("adopt: %q is no container's id: %w", a.Handle.Name, sandbox.ErrGone)
	}
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, fmt.Errorf("the adoption took longer than %s", adoptTimeout))
	defer cancel()
	found, err := e.readBack(ctx, a.Handle.Name)
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("adopt: container %.12s: %w", a.Handle.Name, sandbox.ErrGone)
	}
	if err != nil {
		return nil, b.orGone(ctx, e, fmt.Errorf("adopt: look at the container: %w", err))
	}
	s, err := b.recognise(e, a, found)
	if errors.Is(err, errEnded) { // it waited for nothing but this: what it left is this owner's to remove
		x := &box{engine: e, name: a.Handle.Name, id: a.Handle.Name}
		err = errors.Join(err, x.remove(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("adopt: container %.12s: %w", a.Handle.Name, err)
	}
	i, err := b.takeUp(ctx, e, s, a)
	if err != nil {
		return nil, fmt.Errorf("adopt: container %.12s: %w", a.Handle.Name, err)
	}
	return i, nil
}

func secretForm() *regexp.Regexp  { return regexp.MustCompile(`^[0-9a-f]{64}$`) }
func containerID() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) }

// errEnded is for a container that is the one, and ended by itself.
var errEnded = fmt.Errorf("it does not run any more: %w", sandbox.ErrGone)

// recognise makes sure that a container is the one that was left, and returns what
// it was made from.
func (b *Backend) recognise(e *engine, a sandbox.Adoption, found container.InspectResponse) (spec, error) {
	if found.ContainerJSONBase == nil || found.Config == nil || found.State == nil || found.ID != a.Handle.Name {
		return spec{}, fmt.Errorf("the engine shows another one: %w", sandbox.ErrGone)
	}
	labels := found.Config.Labels
	switch {
	case labels[labelOwner] != b.options.Owner:
		return spec{}, fmt.Errorf("it is not this owner's: %w", sandbox.ErrGone)
	case labels[labelInstance] != string(a.Handle.Label):
		return spec{}, fmt.Errorf("it is another instance: %w", sandbox.ErrGone)
	case !found.State.Running || found.State.Restarting:
		return spec{}, errEnded
	case found.State.Paused:
		return spec{}, fmt.Errorf("it is paused: docker unpause %.12s", found.ID)
	case labels[labelRunner] != runner.Hash():
		return spec{}, errors.New("it was made by another version of brig, which speaks otherwise")
	}
	accepted, err := e.accept(a.Base)
	if err != nil {
		return spec{}, err
	}
	placing := e.placing()
	s := spec{
		name: strings.TrimPrefix(found.Name, "/"), id: labels[labelInstance],
		// Whether the image was to be trusted was decided at the start; it may have been removed since.
		image: images.Ref{
			ID: found.Image, Tag: labels[labelImage], Choice: accepted.image, Runner: labels[labelRunner],
			Base: labels[images.LabelBase], Digest: labels[labelDigest], // the first of the two comes with the image
		}, choice: accepted.image,
		limits: a.Base.Limits.WithDefaults(), runtime: accepted.runtime, lease: a.Base.Lease,
		user: placing.user, seccomp: accepted.profile, cpus: e.info.NCPU, podman: e.podman,
	}
	if placing.bind {
		if s.workspace.directory, err = resolve(a.Workspace); err != nil {
			return spec{}, err
		}
		if !binds(found, s.workspace.directory) {
			return spec{}, errors.New("it has another workspace")
		}
	}
	if s.hash() != labels[labelSpec] {
		return spec{}, errors.New("it was made with other settings than the ones that are wanted now")
	}
	return s, nil
}

// binds tells whether directory is what the container was given as its workspace.
func binds(found container.InspectResponse, directory string) bool {
	if found.HostConfig == nil {
		return false
	}
	for _, m := range found.HostConfig.Mounts { // as asked: an engine in a virtual machine shows its own path elsewhere
		if m.Target == workspacePath {
			return m.Source == directory
		}
	}
	return false
}

// takeUp connects to the runner. When it fails the container is as it was, but for
// a run that may have been interrupted.
func (b *Backend) takeUp(ctx context.Context, e *engine, s spec, a sandbox.Adoption) (_ sandbox.Instance, err error) {
	x := &box{engine: e, patience: b.patience, name: s.name, id: a.Handle.Name, label: sandbox.InstanceID(s.id)}
	if x.disk, err = watchDisk(s); err != nil {
		return nil, err
	}
	var peer *wire.Peer
	defer func() {
		if err != nil {
			if peer != nil {
				err = errors.Join(err, peer.Close())
			}
			x.free()
		}
	}()
	x.told = e.feed.follow(e.cli, x.id)
	x.exited = watchExit(ctx, e, x.id)
	if x.stream, err = attach(ctx, e.cli, x.id); err != nil {
		return nil, fmt.Errorf("attach to it: %w", err)
	}
	if err := e.cli.ContainerKill(ctx, x.id, wakeSignal); err != nil {
		x.stream.Close()
		if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
			err = fmt.Errorf("%w: %w", sandbox.ErrGone, err)
		}
		return nil, fmt.Errorf("wake the runner: %w", err)
	}
	x.out = &demux{r: x.stream.Reader}
	answering, cancel := context.WithTimeoutCause(ctx, answerTimeout, errUnproven)
	defer cancel()
	peer, resumed, err := wire.Resume(answering, x.out, x.stream.Conn, a.Handle.Secret, wire.PeerOptions{
		Close: x.stream.Conn.Close, DisplayBytes: s.limits.Bounds().Display,
	})
	if err != nil {
		return nil, x.orEnded(ctx, err)
	}
	p := &prepared{engine: e, spec: s, container: x, peer: peer, ready: resumed.Ready}
	if err := p.seal(ctx); err != nil {
		return nil, err
	}
	if resumed.Run != "" {
		if err := endRun(ctx, peer, resumed.Run); err != nil {
			return nil, err
		}
	}
	x.renew(peer, s.lease)
	b.adopted.Store(x.id, true)
	x.after = func() { b.adopted.Delete(x.id) }
	return newInstance(a.ID, x, peer, p.posture).wrap(s.lease, a.Handle.Secret), nil
}

// orEnded adds ErrGone to the failure of a conversation, if the container is gone.
func (x *box) orEnded(ctx context.Context, err error) error {
	if asking := context.WithoutCancel(ctx); x.look(asking) == sightEnded {
		return fmt.Errorf("%w: %w", sandbox.ErrGone, err)
	}
	return err
}

// endRun ends the run that a brig before was waiting for: softly, so that the
// variables stay, and by force where that does not help.
func endRun(ctx context.Context, peer *wire.Peer, run wire.RunID) error {
	for _, step := range []struct {
		level wire.Level
		bound time.Duration
	}{{wire.Soft, softEnd}, {wire.Hard, hardEnd}} {
		if err := peer.Interrupt(ctx, run, step.level, true); err != nil && !errors.Is(err, wire.ErrNotRunning) {
			return fmt.Errorf("end the run that was under way: %w", err)
		}
		waiting, cancel := context.WithTimeoutCause(ctx, step.bound, errStillRuns)
		_, err := peer.Finish(waiting, run)
		cancel()
		if err == nil {
			return nil
		}
		if step.level == wire.Hard || !errors.Is(err, errStillRuns) {
			return fmt.Errorf("end the run that was under way: %w", err)
		}
	}
	return nil
}

var errUnproven = fmt.Errorf("the runner did not prove the secret within %s", answerTimeout)

var errStillRuns = errors.New("it did not end in time")
