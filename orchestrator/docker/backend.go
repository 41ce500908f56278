package docker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// Backend is one Docker engine, found anew whenever it was lost.
type Backend struct {
	options  Options
	images   *images.Trust
	count    atomic.Int64 // of containers made
	patience patience
	adopted  sync.Map // ids of containers that other processes made and this one has
	refs     sync.Map // imageKey → images.Ref that was trusted last

	mu      sync.Mutex
	engine  *engine       // nil until reached, and after it was lost
	retired []*engine     // former ones: instances may still talk through them
	slots   chan struct{} // one for each processor of the engine: more only make every start slower
}

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ images.Builder  = (*Backend)(nil)
)

// New returns a backend. It talks to no engine yet.
func New(o Options) (*Backend, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.Images == nil {
		o.Images = images.New(images.Options{Env: o.Env})
	}
	return &Backend{options: o, images: o.Images, patience: defaultPatience()}, nil
}

// Kind is constant.
func (b *Backend) Kind() sandbox.Kind { return sandbox.Docker }

// Probe asks the engine now, at most for reachTimeout. It looks for an engine
// anew each time, so that a change of context or a returned engine is seen.
func (b *Backend) Probe(ctx context.Context) (sandbox.Facts, error) {
	e, err := b.reachAgain(ctx)
	if err != nil {
		return sandbox.Facts{}, err
	}
	return e.facts(), nil
}

// reachAgain replaces the engine by a fresh one. Instances keep the one they were made on.
func (b *Backend) reachAgain(ctx context.Context) (*engine, error) {
	e, err := reach(ctx, b.options)
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.engine; old != nil && (err != nil || !e.continues(old)) {
		old.http.CloseIdleConnections()
		b.retired = append(b.retired, old)
	}
	b.engine = e
	if err != nil {
		b.engine = nil
		return nil, err
	}
	if e.feed == nil {
		e.feed = newFeed(b.options.Owner)
	}
	if cores := max(e.info.NCPU, 1); cap(b.slots) != cores {
		b.slots = make(chan struct{}, cores)
	}
	return e, nil
}

// current is the engine that the last probe found, or a fresh one.
func (b *Backend) current(ctx context.Context) (*engine, error) {
	b.mu.Lock()
	e := b.engine
	b.mu.Unlock()
	if e != nil {
		return e, nil
	}
	return b.reachAgain(ctx)
}

// forget makes the next call look for an engine again, if e is still the one in use.
func (b *Backend) forget(e *engine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine == e {
		b.engine = nil
		b.retired = append(b.retired, e)
	}
}

// Close frees connections. Instances are closed before, by their owner.
func (b *Backend) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range append(b.retired, b.engine) {
		if e != nil {
			e.close()
		}
	}
	b.engine, b.retired = nil, nil
	return nil
}

// slot waits for a turn to start a container.
func (b *Backend) slot(ctx context.Context) (release func(), err error) {
	b.mu.Lock()
	slots := b.slots
	b.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a turn to start a container: %w", context.Cause(ctx))
	}
}

func (e *engine) facts() sandbox.Facts {
	product := "Docker"
	if e.podman {
		product = "Podman"
	}
	details := map[string]string{
		"product":          product,
		"api":              e.cli.ClientVersion(),
		"operating system": printable(e.info.OperatingSystem),
		"kernel":           printable(e.info.KernelVersion),
		"architecture":     printable(e.version.Arch),
		"cgroup":           "v" + printable(e.info.CgroupVersion),
		"cpus":             fmt.Sprint(e.info.NCPU),
		"memory":           fmt.Sprint(e.info.MemTotal),
		"runtimes":         strings.Join(e.runtimes(), ", "),
		"default runtime":  printable(e.info.DefaultRuntime),
		"security":         printable(strings.Join(e.info.SecurityOptions, " ")),
		"workspace":        e.placing().describe(),
	}
	var warnings []string
	for _, warning := range e.info.Warnings {
		warnings = append(warnings, printable(warning))
	}
	return sandbox.Facts{
		Backend: sandbox.Docker, Endpoint: e.endpoint, Source: e.source,
		Version: product + " " + printable(e.version.Version), Details: details, Warnings: warnings,
	}
}
