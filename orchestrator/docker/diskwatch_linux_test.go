package docker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

// TestDiskIsWatched: the sum of all files has no limit of the engine's, so brig ends the instance.
func TestDiskIsWatched(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.Workspace = 64 << 20
	dir := t.TempDir()
	i := session(t, b, base, dir)
	ok(t, i, "open('fits', 'wb').write(bytes(48 << 20))\nimport os\nwith open('sparse', 'wb') as f: f.truncate(1 << 29)")
	if l := i.Posture().Layer(sandbox.DiskLimit); l.State != sandbox.Partial || l.Code != "watched" {
		t.Errorf("posture: %+v", l)
	}
	o := run(t, i, "import time\nprint('on', flush=True)\nfor n in range(10_000):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(1 << 20))\n    time.sleep(0.005)")
	wantLost(t, o.err, sandbox.DiskOut)
	if !strings.Contains(o.err.Error(), "its limit is 64MiB") || o.stdout.String() != "on\n" {
		t.Errorf("%v, stdout %q", o.err, o.stdout.String())
	}
	held := held(t, dir)
	t.Logf("it held %d MiB", held>>20)
	if held > 1<<30 {
		t.Errorf("%d bytes were written before the end", held)
	}
	if err := i.Close(limited(t)); err != nil {
		t.Error(err)
	}

	// The next one of the session may delete, and may not go on.
	next := session(t, b, base, dir)
	ok(t, next, "print('still here')")
	o = run(t, next, "open('more', 'wb').write(bytes(32 << 20))\nimport time\ntime.sleep(60)")
	wantLost(t, o.err, sandbox.DiskOut)
	if !strings.Contains(o.err.Error(), "delete files first") {
		t.Errorf("%v", o.err)
	}
	third := session(t, b, base, dir)
	ok(t, third, "import glob, os\nfor f in glob.glob('*'): os.remove(f)")
	ok(t, third, "open('fits', 'wb').write(bytes(48 << 20))")
}

func held(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.Name() != "sparse" {
			bytes += info.Size()
		}
	}
	return bytes
}

// TestDiskOfAnIdleSession: what a run left running is watched too.
func TestDiskOfAnIdleSession(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.Workspace = 16 << 20
	i := session(t, b, base, t.TempDir())
	ok(t, i, "import threading, time\ndef later():\n    time.sleep(0.5)\n    open('late', 'wb').write(bytes(32 << 20))\nthreading.Thread(target=later).start()")
	<-i.Done()
	if c := i.Cause(); c.Cause != sandbox.DiskOut {
		t.Errorf("%+v", c)
	}
}

// TestDiskAtAnyDepth: no depth hides what is written.
func TestDiskAtAnyDepth(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.Workspace = 30 << 20
	const down = "import os, time\nfor n in range(%d):\n    os.mkdir('d')\n    os.chdir('d')\n"
	for _, c := range []struct {
		name, program, says string
	}{
		{"reached", fmt.Sprintf(down, 70) + "open('f', 'wb').write(bytes(60 << 20))\ntime.sleep(60)", "its limit is 30MiB"},
		{"too deep", fmt.Sprintf(down, 300) + "time.sleep(60)", "nested deeper than 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			i := session(t, b, base, dir)
			ok(t, i, "print('control')")
			o := run(t, i, c.program)
			wantLost(t, o.err, sandbox.DiskOut)
			if !strings.Contains(o.err.Error(), c.says) {
				t.Errorf("%v", o.err)
			}
		})
	}
}

// TestDiskUncountable: what cannot be measured is refused before anything starts.
func TestDiskUncountable(t *testing.T) {
	var u *sandbox.Unavailable
	err := uncountable("/w", &workspace.Error{Op: "measure", Kind: workspace.ErrTooMany})
	if !errors.As(err, &u) || u.Code != "workspace-too-many-files" || !u.Settings {
		t.Errorf("too many files: %v", err)
	}
	err = uncountable("/w", &workspace.Error{Op: "measure", Kind: workspace.ErrTooDeep})
	if !errors.As(err, &u) || u.Code != "workspace-too-deep" || !u.Settings || !strings.Contains(err.Error(), "nested deeper than 256") {
		t.Errorf("nested too deeply: %v", err)
	}
	_, err = watchDisk(spec{workspace: place{directory: t.TempDir() + "/gone"}})
	if err == nil || errors.As(err, new(*sandbox.Unavailable)) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if d, err := watchDisk(spec{}); d != nil || err != nil {
		t.Errorf("a workspace with a size of its own: %v, %v", d, err)
	}
}
