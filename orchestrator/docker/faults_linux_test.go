package docker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"brig/images"
	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
)

// reachFailure is a way in which what answers at an endpoint cannot be used.
type reachFailure struct {
	name    string
	options enginetest.Options
	faults  []enginetest.Fault
	strike  func(e *enginetest.Engine)
	code    string
	bound   time.Duration // zero: at once, which is a second on a loaded machine
}

func reachFailures() []reachFailure {
	const page = "<html><body>It works!</body></html>"
	flavor := func(version, api, least string) enginetest.Options {
		return enginetest.Options{Flavor: enginetest.Flavor{Version: version, API: api, MinAPI: least}}
	}
	hung := reachTimeout + 2*time.Second
	return []reachFailure{
		{name: "ping answers and version is a page", faults: []enginetest.Fault{{Op: enginetest.Version, Body: page}}, code: "engine-not-docker"},
		{name: "version fails", faults: []enginetest.Fault{{Op: enginetest.Version, Status: 500, Message: "oops"}}, code: "engine-not-docker"},
		{name: "version is garbage", faults: []enginetest.Fault{{Op: enginetest.Version, Raw: "\x00\x01\x02\x03\r\n\r\n"}}, code: "engine-not-docker"},
		{name: "version is cut off", faults: []enginetest.Fault{{Op: enginetest.Version, CutAfter: 300}}, code: "engine-closed"},
		{name: "no answer to version", faults: []enginetest.Fault{{Op: enginetest.Version, Cut: true}}, code: "engine-closed"},
		{name: "info fails", faults: []enginetest.Fault{{Op: enginetest.Info, Status: 500, Message: "driver failed"}}, code: "engine-failing"},
		{name: "info is a page", faults: []enginetest.Fault{{Op: enginetest.Info, Body: page}}, code: "engine-failing"},
		{name: "info is cut off", faults: []enginetest.Fault{{Op: enginetest.Info, CutAfter: 400}}, code: "engine-failing"},
		{name: "too old", options: flavor("19.03.15", "1.40", "1.12"), code: "engine-too-old"},
		{name: "minimum above ours", options: flavor("99.0", "9.99", "9.0"), code: "engine-too-new"},
		{name: "hung", strike: (*enginetest.Engine).Hang, code: "engine-hung", bound: hung},
		{name: "killed", strike: (*enginetest.Engine).Kill, code: "engine-stale-socket"},
		{name: "alive and busy", faults: []enginetest.Fault{{Op: enginetest.Info, Hold: true}}, code: "engine-busy", bound: reachTimeout + busyTimeout + 2*time.Second},
	}
}

// TestFailuresToReach: each failure has its own name and its own next command, and
// when it is over the engine is usable.
func TestFailuresToReach(t *testing.T) {
	for _, f := range reachFailures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := fakeEngine(t, f.options)
			b := newBackend(t, func(o *Options) { o.Env, o.Endpoint = env(), e.Endpoint() })
			var injected []*enginetest.Injected
			for _, fault := range f.faults {
				injected = append(injected, e.Inject(fault))
			}
			if f.strike != nil {
				f.strike(e)
			}
			began := time.Now()
			_, err := b.Probe(limited(t))
			if took, bound := time.Since(began), max(f.bound, 2*time.Second); took > bound {
				t.Errorf("it took %s, more than %s", took, bound)
			}
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != f.code || u.Remedy == "" || !strings.Contains(u.Reason, e.Endpoint()) {
				t.Errorf("want %s, got %v", f.code, err)
			}
			for _, i := range injected {
				i.Clear()
			}
			e.Resume()
			if f.code == "engine-stale-socket" {
				e.Restart(t)
			}
			if _, err := b.Probe(limited(t)); err != nil && f.options.Flavor == (enginetest.Flavor{}) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// startFailure is a way in which the start of a container fails.
type startFailure struct {
	name   string
	flavor enginetest.Flavor
	fault  enginetest.Fault
	strike func(e *enginetest.Engine) // once the fault was met
	within time.Duration              // the caller's own patience; zero: a minute
	code   string                     // of an Unavailable; empty: any error
	says   string                     // part of its text
	works  bool                       // the start succeeds in spite of it
}

func startFailures() []startFailure {
	full := "failed to create rwlayer: mkdir /var/lib/docker/overlay2/x: no space left on device"
	const short = 300 * time.Millisecond
	return []startFailure{
		{name: "create: disk full", fault: enginetest.Fault{Op: enginetest.Create, Status: 500, Message: full}, code: "engine-disk-full", says: "disk is full"},
		{name: "create: the image is gone, once", fault: enginetest.Fault{Op: enginetest.Create, Status: 404, Message: "No such image: x", Times: 1}, works: true},
		{name: "create: name taken", fault: enginetest.Fault{Op: enginetest.Create, Status: 409, Message: "Conflict. The container name is already in use"}, says: "Conflict"},
		{name: "create: refused", fault: enginetest.Fault{Op: enginetest.Create, Status: 400, Message: "invalid option"}, says: "invalid option"},
		{name: "create: took effect, no answer", fault: enginetest.Fault{Op: enginetest.Create, After: true, Cut: true, Times: 1}, says: "create the container"},
		{name: "create: garbage", fault: enginetest.Fault{Op: enginetest.Create, Raw: "SSH-2.0-OpenSSH\r\n\r\n"}, says: "create the container"},
		{name: "create: late, the caller has gone", fault: enginetest.Fault{Op: enginetest.Create, Hold: true}, within: short},
		{name: "attach: not found", fault: enginetest.Fault{Op: enginetest.Attach, Status: 404, Message: "No such container: x"}, says: "attach to the container"},
		{name: "attach: conflict", fault: enginetest.Fault{Op: enginetest.Attach, Status: 409, Message: "is paused"}, says: "attach to the container"},
		{name: "attach: garbage", fault: enginetest.Fault{Op: enginetest.Attach, Raw: "\x16\x03\x01\x00"}, says: "attach to the container"},
		{name: "attach: cut", fault: enginetest.Fault{Op: enginetest.Attach, Cut: true}, says: "attach to the container"},
		{name: "attach: hangs", fault: enginetest.Fault{Op: enginetest.Attach, Hold: true}, within: short},
		{name: "attach: ends in the greeting", fault: enginetest.Fault{Op: enginetest.Attach, CutAfter: 100}, says: "greet the runner"},
		{name: "attach: ends in a frame's header", fault: enginetest.Fault{Op: enginetest.Attach, CutAfter: 4}, says: "greet the runner"},
		{name: "wait: fails", fault: enginetest.Fault{Op: enginetest.Wait, Status: 500, Message: "oops"}, works: true},
		{name: "wait: garbage", fault: enginetest.Fault{Op: enginetest.Wait, Body: "<html>"}, works: true},
		{name: "wait: hangs", fault: enginetest.Fault{Op: enginetest.Wait, Hold: true}, within: short},
		{name: "start: runtime fails", fault: enginetest.Fault{Op: enginetest.Start, Status: 500, Message: "OCI runtime create failed"}, says: "OCI runtime create failed"},
		{name: "start: took effect, no answer", fault: enginetest.Fault{Op: enginetest.Start, After: true, Cut: true}, says: "start the container"},
		{name: "start: hangs", fault: enginetest.Fault{Op: enginetest.Start, Hold: true}, within: short},
		{name: "start: took effect, hangs", fault: enginetest.Fault{Op: enginetest.Start, After: true, Hold: true}, within: 2 * time.Second},
		{name: "inspect: fails", fault: enginetest.Fault{Op: enginetest.Inspect, Status: 500, Message: "oops"}, says: "read the container back"},
		{name: "inspect: cut off", fault: enginetest.Fault{Op: enginetest.Inspect, CutAfter: 500}, says: "read the container back"},
		{name: "inspect: empty", fault: enginetest.Fault{Op: enginetest.Inspect, Body: "{}"}, says: "left out its configuration"},
		{name: "events: fail", fault: enginetest.Fault{Op: enginetest.Events, Status: 500, Message: "oops"}, works: true},
		{name: "events: garbage", fault: enginetest.Fault{Op: enginetest.Events, Raw: "garbage"}, works: true},
		{name: "podman, attach: conflict", flavor: enginetest.Podman4(), fault: enginetest.Fault{Op: enginetest.Attach, Status: 409, Message: "improper state"}, says: "attach to the container"},
		{name: "the daemon dies at create", fault: enginetest.Fault{Op: enginetest.Create, Hold: true}, strike: (*enginetest.Engine).Kill, code: "engine-stale-socket"},
		{name: "the daemon dies at start", fault: enginetest.Fault{Op: enginetest.Start, Hold: true}, strike: (*enginetest.Engine).Kill, code: "engine-stale-socket"},
	}
}

// TestFailuresToStart: a start that fails says why, leaves nothing once the engine
// answers again, and the next one works.
func TestFailuresToStart(t *testing.T) {
	built := builtEngine(t)
	for _, f := range startFailures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := fakeEngine(t, enginetest.Options{Flavor: f.flavor, Images: built})
			b := fakeBackend(t, e)
			injected := e.Inject(f.fault)
			ctx, cancel := context.WithTimeout(limited(t), max(f.within, time.Minute*time.Duration(boolInt(f.within == 0))))
			defer cancel()
			if f.strike != nil {
				go func() {
					<-injected.Met()
					f.strike(e)
				}()
			}
			if f.within != 0 { // a creation is waited for and called back, so it has to come at last
				go func() {
					<-ctx.Done()
					injected.Release()
				}()
			}
			began := time.Now()
			p, err := b.Prepare(ctx, coreBase(), t.TempDir())
			if took, bound := time.Since(began), f.within+createGrace+undoTimeout+5*time.Second; took > bound {
				t.Errorf("it took %s, more than %s", took, bound)
			}
			switch {
			case f.works && err != nil:
				t.Errorf("prepare: %v", err)
			case f.works:
				err = p.Close(limited(t))
				if err != nil {
					t.Errorf("close: %v", err)
				}
			case err == nil:
				t.Error("it succeeded")
				_ = p.Close(limited(t))
			default:
				var u *sandbox.Unavailable
				if f.code != "" && (!errors.As(err, &u) || u.Code != f.code || u.Remedy == "") || !strings.Contains(err.Error(), f.says) {
					t.Errorf("want %q %q, got %v", f.code, f.says, err)
				}
			}
			injected.Clear()
			if f.strike != nil {
				e.Restart(t)
				sweepAll(t, b)
			}
			awaitGoneFrom(t, e)
			nextWorks(t, b)
			awaitGoneFrom(t, e)
		})
	}
}

// builtEngine has the runner image, for others to share.
func builtEngine(t *testing.T) *enginetest.Engine {
	t.Helper()
	e := fakeEngine(t, enginetest.Options{})
	fakeBackend(t, e)
	return e
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sweepAll removes what the backend's owner has, as the next brig would.
func sweepAll(t *testing.T, b *Backend) {
	t.Helper()
	next := newBackend(t, func(o *Options) {
		o.Env, o.Endpoint, o.Owner, o.Images = env(), b.options.Endpoint, b.options.Owner, images.New(images.Options{})
	})
	if _, err := next.Sweep(limited(t), b.options.Owner, func(sandbox.InstanceID) bool { return false }); err != nil {
		t.Errorf("sweep: %v", err)
	}
}

// awaitGoneFrom: nothing is left. What the engine removes by itself may be under way.
func awaitGoneFrom(t *testing.T, e *enginetest.Engine) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		left := e.Containers()
		if len(left) == 0 {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Errorf("%d containers are left, after %v", len(left), e.Requests())
			return
		}
	}
}

// nextWorks starts, uses and closes a session.
func nextWorks(t *testing.T, b *Backend) {
	t.Helper()
	i := session(t, b, coreBase(), t.TempDir())
	if o := ok(t, i, "print(6 * 7)"); o.stdout.String() != "42\n" {
		t.Errorf("the next session said %q", o.stdout.String())
	}
	if err := i.Close(limited(t)); err != nil {
		t.Errorf("close the next session: %v", err)
	}
}
