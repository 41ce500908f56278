package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// leftBehind is an instance whose brig was killed in the middle of a run.
func leftBehind(t *testing.T, owner *Backend) sandbox.Adoption {
	t.Helper()
	a := sandbox.Adoption{ID: "kept-1", Base: leased(time.Minute), Workspace: t.TempDir()}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), verb+"=keep", "BRIG_DOCKER_TEST_OWNER="+owner.options.Owner,
		"BRIG_DOCKER_TEST_PROCESS="+token(), "BRIG_DOCKER_TEST_WORKSPACE="+a.Workspace)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || json.Unmarshal(line, &a.Handle) != nil {
		t.Fatalf("the helper said %q, %v: %s", line, err, said.String())
	}
	return a
}

func adopted(t *testing.T, b *Backend, a sandbox.Adoption) sandbox.Instance {
	t.Helper()
	i, err := b.Adopt(limited(t), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(limited(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}

// TestAdoptedAfterKill is what a lease is for.
func TestAdoptedAfterKill(t *testing.T) {
	b := engineBackend(t, images.Core)
	a := leftBehind(t, b)
	if n := len(containersOf(t, b)); n != 1 {
		t.Fatalf("%d containers are left", n)
	}
	stranger := newBackend(t)
	if _, err := stranger.Sweep(limited(t), stranger.options.Owner, func(sandbox.InstanceID) bool { return false }); err != nil {
		t.Error(err)
	}
	if removed, err := b.Sweep(limited(t), b.options.Owner, func(id sandbox.InstanceID) bool { return id == a.Handle.Label }); removed != 0 || err != nil {
		t.Errorf("a sweep that should keep it removed %d, %v", removed, err)
	}
	i := adopted(t, b, a)
	if o := ok(t, i, "x += 1\nprint(x)"); o.stdout.String() != "42\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	if c, readable := i.(sandbox.Meter).Counters(); !readable || c.Source == "" {
		t.Errorf("its counters: %+v, %v", c, readable)
	}
	// This brig has it now, whatever the label says of who made it.
	if removed, err := b.Sweep(limited(t), b.options.Owner, func(sandbox.InstanceID) bool { return false }); removed != 0 || err != nil {
		t.Errorf("a sweep of who has adopted it removed %d, %v", removed, err)
	}
	ok(t, i, "print(x)")
	must(t, i.Close(limited(t)))
	awaitNone(t, b, 5*time.Second, anyContainer)
}

// TestAdoptsNoOther: everything but the right description is refused, and what is
// there stays as it is.
func TestAdoptsNoOther(t *testing.T) {
	b := engineBackend(t, images.Core)
	dir := t.TempDir()
	i := sessionOf(t, b, leased(time.Minute), dir)
	ok(t, i, "x = 41")
	kept := i.(sandbox.Keepable)
	right := sandbox.Adoption{Handle: kept.Handle(), ID: i.ID(), Base: leased(time.Minute), Workspace: dir}
	must(t, kept.Detach(limited(t)))
	later := func() *Backend { return newBackend(t, func(o *Options) { o.Owner = b.options.Owner }) }
	cli := boxOf(i).engine.cli
	for name, c := range map[string]struct {
		gone  bool
		owner *Backend
		spoil func(a *sandbox.Adoption)
	}{
		"another owner":          {true, newBackend(t), func(*sandbox.Adoption) {}},
		"the container's name":   {true, later(), func(a *sandbox.Adoption) { a.Handle.Name = boxOf(i).name }},
		"a part of its id":       {true, later(), func(a *sandbox.Adoption) { a.Handle.Name = a.Handle.Name[:12] }},
		"another label":          {true, later(), func(a *sandbox.Adoption) { a.Handle.Label += "0" }},
		"another memory limit":   {false, later(), func(a *sandbox.Adoption) { a.Base.Limits.Memory = 512 << 20 }},
		"no lease":               {false, later(), func(a *sandbox.Adoption) { a.Base.Lease = 0 }},
		"a workspace of nothing": {false, later(), func(a *sandbox.Adoption) { a.Workspace = dir + "/gone" }},
	} {
		a := right
		c.spoil(&a)
		got, err := c.owner.Adopt(limited(t), a)
		if err == nil {
			t.Fatalf("%s: adopted", name)
		}
		if got != nil || errors.Is(err, sandbox.ErrGone) != c.gone {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, cli.ContainerPause(limited(t), right.Handle.Name))
	if _, err := later().Adopt(limited(t), right); err == nil || errors.Is(err, sandbox.ErrGone) || !strings.Contains(err.Error(), "docker unpause") {
		t.Errorf("a paused one: %v", err)
	}
	must(t, cli.ContainerUnpause(limited(t), right.Handle.Name))
	if o := ok(t, adopted(t, later(), right), "print(x)"); o.stdout.String() != "41\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
}

// sessionOf is session for a base with a lease.
func sessionOf(t *testing.T, b *Backend, base sandbox.Base, dir string) sandbox.Instance {
	t.Helper()
	p, err := b.Prepare(limited(t), base, dir)
	must(t, err)
	i, err := p.Bind(limited(t), sandbox.Claim{ID: sandbox.InstanceID(b.options.Process + "-1"), Session: "kept", Workspace: dir})
	must(t, err)
	t.Cleanup(func() { _ = i.Close(limited(t)) })
	return i
}

// engineRestarts: with live-restore the container goes on while its engine is away,
// and is taken up again when that is back.
func engineRestarts(t *testing.T, own *ownEngine) {
	own.restore(t)
	b := own.backend(t)
	dir := t.TempDir()
	i := sessionOf(t, b, leased(time.Minute), dir)
	ok(t, i, "x = 41")
	kept := i.(sandbox.Keepable)
	own.finish(syscall.SIGKILL)
	<-kept.Done()
	if c := kept.Cause(); c.Cause != sandbox.BackendLost {
		t.Errorf("%+v", c)
	}
	must(t, kept.Detach(limited(t)))
	own.start(t)
	again, err := b.Adopt(limited(t), sandbox.Adoption{Handle: kept.Handle(), ID: kept.ID(), Base: leased(time.Minute), Workspace: dir})
	must(t, err)
	if o := ok(t, again, "print(x)"); o.stdout.String() != "41\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	must(t, again.Close(limited(t)))
	usable(t, b)
	nothingLeft(t, b)
}
