package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// recipeOf is a build context with nothing but a recipe.
func recipeOf(t testing.TB, recipe string) images.Request {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Size: int64(len(recipe)), Mode: 0o444}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(recipe)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return images.Request{Context: out.Bytes(), Dockerfile: "Dockerfile", Tag: "brig-test:" + token(), Offline: true}
}

// makeImage builds with one builder and removes the image at the end of the test.
func makeImage(t testing.TB, b *Backend, r images.Request, version build.BuilderVersion) (seen []images.Progress, begun bool, err error) {
	t.Helper()
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.RemoveImage(limited(t), r.Tag); err != nil {
			t.Error(err)
		}
	})
	begun, err = e.build(limited(t), version, r, func(p images.Progress) { seen = append(seen, p) })
	return seen, begun, err
}

// userImage is an image as a user would bring it.
func userImage(t testing.TB, b *Backend, recipe string) string {
	t.Helper()
	r := recipeOf(t, recipe)
	if _, _, err := makeImage(t, b, r, build.BuilderV1); err != nil {
		t.Fatal(err)
	}
	return r.Tag
}

func builders() []build.BuilderVersion {
	return []build.BuilderVersion{build.BuilderV1, build.BuilderBuildKit}
}

// coreTag is the trusted core image, as something to build on.
func coreTag(t testing.TB, b *Backend) string {
	t.Helper()
	ref, err := b.ensureImage(limited(t), images.Core)
	if err != nil {
		t.Fatal(err)
	}
	return ref.Tag
}

func TestBothBuilders(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreTag(t, b)
	for _, version := range builders() {
		t.Run(builderName(version), func(t *testing.T) {
			r := recipeOf(t, "FROM "+base+"\nARG WORD\nUSER 0\nRUN echo said-$WORD-"+token()+"; test ! -e /sys/class/net/eth0\nLABEL dev.brig.test=made\n")
			r.Args = map[string]string{"WORD": "hello"}
			seen, _, err := makeImage(t, b, r, version)
			if err != nil {
				t.Fatal(err)
			}
			var step, said images.Progress
			for _, p := range seen {
				if p.Instruction && strings.HasPrefix(p.Text, "RUN echo") {
					step = p
				}
				if !p.Instruction && strings.HasPrefix(p.Text, "said-hello-") {
					said = p
				}
				if p.Step < 1 || p.Step > p.Total || p.Text == "" {
					t.Errorf("progress %+v", p)
				}
			}
			if step.Step == 0 || said.Step != step.Step {
				t.Errorf("the step is %+v, and what it said %+v", step, said)
			}
			d, err := b.Inspect(limited(t), r.Tag)
			if err != nil || d.Labels["dev.brig.test"] != "made" || d.OS != "linux" {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestBothBuildersFail(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreTag(t, b)
	for _, version := range builders() {
		t.Run(builderName(version), func(t *testing.T) {
			lines := "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo line $n; done"
			_, begun, err := makeImage(t, b, recipeOf(t, "FROM "+base+"\nRUN "+lines+"; exit 3\n"), version)
			var failed *images.StepError
			if !errors.As(err, &failed) || !begun {
				t.Fatalf("begun %v, %v", begun, err)
			}
			if !strings.HasPrefix(failed.Step, "RUN for n in") || len(failed.Tail) != tailLines || failed.Tail[tailLines-1] != "line 15" || !strings.Contains(failed.Message, "3") {
				t.Errorf("%+v", failed)
			}
			_, begun, err = makeImage(t, b, recipeOf(t, "FROM brig.invalid/nothing:"+token()+"\n"), version)
			if err == nil {
				t.Errorf("a missing base is no failure (begun %v)", begun)
			}
		})
	}
}

// TestCancelledBuildStops: what the build ran is gone from the engine's machine.
func TestCancelledBuildStops(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreTag(t, b)
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range builders() {
		t.Run(builderName(version), func(t *testing.T) {
			mark := token()
			r := recipeOf(t, "FROM "+base+"\nRUN [\"python3\", \"-u\", \"-c\", \"import time; print('begun'); time.sleep(600)\", \""+mark+"\"]\n")
			ctx, cancel := context.WithCancelCause(limited(t))
			stop := errors.New("not wanted any more")
			seen := ""
			_, err := e.build(ctx, version, r, func(p images.Progress) {
				if p.Text == "begun" {
					seen = processWith(t, mark)
					cancel(stop)
				}
			})
			if !errors.Is(err, stop) {
				t.Errorf("%v", err)
			}
			if seen == "" {
				t.Fatal("the step was not seen to run")
			}
			until := time.After(20 * time.Second)
			for processWith(t, mark) != "" {
				select {
				case <-until:
					t.Fatal("the step still runs")
				case <-time.After(100 * time.Millisecond):
				}
			}
			if _, err := b.Inspect(limited(t), r.Tag); !errors.Is(err, images.ErrNoImage) {
				t.Errorf("an image was made: %v", err)
			}
		})
	}
}

// processWith is the id of a process of this machine with that word on its command line.
func processWith(t testing.TB, word string) string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && bytes.HasPrefix(line, []byte("python3\x00")) && bytes.Contains(line, []byte(word)) {
			return entry.Name()
		}
	}
	return ""
}

// ownBase is the Base of a user's image.
func ownBase(tag string) sandbox.Base {
	base := coreBase()
	base.Image = images.Choice{Reference: tag}.String()
	return base
}

// removeOwn removes what was built on top of a user's image, before that goes.
func removeOwn(t testing.TB, b *Backend, tag string) {
	t.Helper()
	t.Cleanup(func() {
		list, err := b.images.Select(limited(t), b, images.Selection{Names: []string{tag}})
		var unknown *images.UnknownImageError
		if errors.As(err, &unknown) {
			return
		}
		if err == nil {
			_, err = b.images.Remove(limited(t), b, list)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestOwnImageUnderminesNothing: everything that an image can say about how it wants to be run.
func TestOwnImageUnderminesNothing(t *testing.T) {
	b := engineBackend(t, images.Core)
	tag := userImage(t, b, `FROM `+coreTag(t, b)+`
USER 0
RUN mkdir /opt/mine && echo 'x = 42' > /opt/mine/mine.py && cp /opt/mine/mine.py /usr/lib/python3/dist-packages/ && cp /usr/bin/env /usr/bin/mysuid && chmod 4755 /usr/bin/mysuid
ENV SECRET=hunter2 LD_PRELOAD=/nowhere.so PYTHONPATH=/opt/mine PYTHONSTARTUP=/opt/mine/mine.py PYTHONINSPECT=1 GDAL_DATA=/opt/gdal TIER=core CONTENT_HASH=forged
HEALTHCHECK --interval=1s CMD touch /workspace/health
EXPOSE 80
STOPSIGNAL SIGCONT
SHELL ["/bin/false"]
WORKDIR /opt/mine
VOLUME /tmp
LABEL dev.brig.owner=somebody dev.brig.tier=core
ENTRYPOINT ["/bin/sh", "-c", "touch /tmp/entrypoint; exec \"$@\""]
CMD ["python3", "-c", "raise SystemExit(7)"]
`)
	removeOwn(t, b, tag)
	i := session(t, b, ownBase(tag), t.TempDir())
	o := ok(t, i, `import os, mine
print(mine.x, os.environ.get("SECRET", ""), os.environ.get("LD_PRELOAD", ""), os.environ.get("PYTHONPATH", ""), os.environ["GDAL_DATA"], os.getcwd())
print(sorted(os.listdir("/workspace")), os.path.exists("/tmp/entrypoint"), os.geteuid() != 0)
try:
    open("/opt/mine/new", "w")
except OSError as err:
    print(type(err).__name__)
print(open("/proc/self/mountinfo").read().count(" /tmp "))
`)
	if got, want := o.stdout.String(), "42    /opt/gdal /workspace\n[] False True\nOSError\n1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p := i.Posture()
	if warnings := p.Warnings(); len(warnings) != 0 {
		t.Errorf("weakened: %+v", warnings)
	}
	if !strings.HasPrefix(p.Identity, tag+" (sha256:") || !strings.Contains(p.Identity, " as brig-runner:own-") {
		t.Errorf("identity %q", p.Identity)
	}
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cli.ContainerInspect(limited(t), i.box.id)
	if err != nil {
		t.Fatal(err)
	}
	if out.Config.Healthcheck != nil && len(out.Config.Healthcheck.Test) > 0 && out.Config.Healthcheck.Test[0] != "NONE" || out.State.Health != nil {
		t.Errorf("health check %+v, %+v", out.Config.Healthcheck, out.State.Health)
	}
	if out.Config.Labels[labelOwner] != b.options.Owner || len(out.Mounts) != 1 {
		t.Errorf("owner %q, mounts %+v", out.Config.Labels[labelOwner], out.Mounts)
	}
}

// TestOwnImageMoves: a tag that means another image makes what was built stale.
func TestOwnImageMoves(t *testing.T) {
	b := engineBackend(t, images.Core)
	core := coreTag(t, b)
	tag := userImage(t, b, "FROM "+core+"\nUSER 0\nRUN echo one > /which\n")
	removeOwn(t, b, tag)
	choice := images.Choice{Reference: tag}
	first, err := b.ensure(limited(t), choice)
	if err != nil || !first.Built {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := b.ensure(limited(t), choice); err != nil || again.ID != first.ID || again.Built {
		t.Errorf("%+v, %v", again, err)
	}
	r := recipeOf(t, "FROM "+core+"\nUSER 0\nRUN echo two > /which\n")
	r.Tag = tag
	if err := b.Build(limited(t), r, nil); err != nil {
		t.Fatal(err)
	}
	s, err := b.images.Look(limited(t), b, choice)
	if err != nil || s.Condition != images.Stale || s.Reason != "the tag "+tag+" moved" {
		t.Errorf("%+v, %v", s, err)
	}
	i := session(t, b, ownBase(tag), t.TempDir())
	if o := ok(t, i, `print(open("/which").read())`); o.stdout.String() != "two\n\n" {
		t.Errorf("%q", o.stdout.String())
	}
}

func TestOwnImageRefused(t *testing.T) {
	b := engineBackend(t, images.Core)
	core := coreTag(t, b)
	for code, recipe := range map[string]string{
		"image-python-missing":    "FROM " + images.DefaultBase + "\n",
		"image-python-incomplete": "FROM " + core + "\nUSER 0\nRUN rm /usr/lib/python3*/compileall.py\n",
		"image-python-old": "FROM " + core + "\nUSER 0\nRUN printf '%s\\n' '#!/bin/sh' " +
			"'exec /usr/bin/python3.13 -c \"import sys; sys.version_info = (3, 7, 3); sys.version = sys.version.replace(\\\"3.13\\\", \\\"3.7\\\"); exec(compile(open(sys.argv[2]).read(), sys.argv[2], \\\"exec\\\"), {\\\"__file__\\\": sys.argv[2], \\\"__name__\\\": \\\"x\\\"})\" \"$@\"' > /usr/local/bin/python3; chmod 755 /usr/local/bin/python3\n",
		"image-volume":      "FROM " + core + "\nVOLUME /data\n",
		"image-onbuild":     "FROM " + core + "\nONBUILD RUN true\n",
		"image-python-fake": "FROM " + core + "\nUSER 0\nRUN printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/python3; chmod 755 /usr/local/bin/python3\n",
		"image-paths":       "FROM " + core + "\nUSER 0\nRUN rmdir /workspace && ln -s /etc /workspace\n",
	} {
		t.Run(code, func(t *testing.T) {
			tag := userImage(t, b, recipe)
			before := time.Now().Add(-time.Second)
			_, err := b.Prepare(limited(t), ownBase(tag), t.TempDir())
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != code || !u.Settings || u.Remedy == "" || !strings.Contains(u.Reason, tag) {
				t.Errorf("%v", err)
			}
			stages, err := b.images.Stages(limited(t), b)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range stages {
				if stage.Labels["dev.brig.stage"] != "" && stage.Created.After(before) {
					t.Errorf("the failed build left %+v", stage)
				}
			}
		})
	}
	missing := fmt.Sprintf("brig-test.invalid/none:%s", token())
	_, forecast := b.Capabilities(limited(t), ownBase(missing))
	_, start := b.Prepare(limited(t), ownBase(missing), t.TempDir())
	for what, err := range map[string]error{"forecast": forecast, "start": start} {
		var u *sandbox.Unavailable
		if !errors.As(err, &u) || u.Code != "image-missing" || !u.Settings || u.Remedy != "docker pull "+missing {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOwnImageWithoutAShell: nothing but an interpreter and what it needs.
func TestOwnImageWithoutAShell(t *testing.T) {
	b := engineBackend(t, images.Core)
	tag := userImage(t, b, `FROM `+coreTag(t, b)+` AS full
USER 0
RUN rm -f /bin/sh /usr/bin/sh /usr/bin/dash /usr/bin/bash /bin/env /usr/bin/env
`)
	removeOwn(t, b, tag)
	i := session(t, b, ownBase(tag), t.TempDir())
	if o := ok(t, i, `import os; print(os.path.exists("/bin/sh"))`); o.stdout.String() != "False\n" {
		t.Errorf("%q", o.stdout.String())
	}
}
