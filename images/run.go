package images

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// codeHangs is the code of an interpreter that does not end.
const codeHangs = "image-python-hangs"

// errSilent is the end of a build on a user's image that says nothing.
var errSilent = errors.New("a step of the build said nothing for too long")

// run has the engine build. The base gets a name of its own for that time: what is
// built on is what was looked at, even if its tag moves meanwhile, and under a name
// of which there can be no registry an engine cannot pull anything by itself. The
// result gets its name only when it is whole and nobody has built the same meanwhile.
func (t *Trust) run(ctx context.Context, b Builder, w wanted, progress func(Progress), always bool) (err error) {
	files, args := w.files, map[string]string{}
	if !w.offline {
		authority, err := t.authority()
		if err != nil {
			return err
		}
		files = map[string][]byte{authorityName: authority}
		for name, text := range w.files {
			files[name] = text
		}
		args = mirrorArgs(t.env)
	}
	tarball, err := buildContext(files)
	if err != nil {
		return err
	}
	for name, value := range w.args {
		args[name] = value
	}
	mine := t.pinName(w.choice)
	pin, fresh := "brig.invalid/base:"+mine, repository+":building-"+mine
	args["BASE"], args["BASE_ID"] = pin, w.base.ID
	if err := b.TagImage(ctx, w.base.ID, pin); err != nil {
		return fmt.Errorf("name the base image: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer cancel()
		failed := errors.Join(b.RemoveImage(ctx, fresh), b.RemoveImage(ctx, pin))
		if err != nil {
			t.dropStage(ctx, b, w)
		} else {
			err = failed
		}
	}()
	err = t.bounded(ctx, w, progress, func(ctx context.Context, progress func(Progress)) error {
		return b.Build(ctx, Request{Context: tarball, Dockerfile: dockerfileName, Tag: fresh, Args: args, Offline: w.offline}, progress)
	})
	if err != nil {
		return err
	}
	return t.publish(ctx, b, w, fresh, always)
}

// bounded gives a build its limits and says in the user's terms what ended it.
func (t *Trust) bounded(ctx context.Context, w wanted, progress func(Progress), build func(context.Context, func(Progress)) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("the build took longer than %s", t.limit))
	defer cancel()
	heard := progress
	if w.choice.Reference != "" {
		silent, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		clock := time.AfterFunc(t.silence, func() { stop(errSilent) })
		defer clock.Stop()
		ctx, heard = silent, func(p Progress) {
			clock.Reset(t.silence)
			progress(p)
		}
	}
	err := build(ctx, heard)
	var failed *StepError
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSilent):
		return &OwnImageError{
			Reference: w.choice.Reference, Code: codeHangs, Err: errors.Join(errSilent, err),
			Reason: fmt.Sprintf("has a %s that did not come to an end: the build said nothing for %s and was stopped", w.python, t.silence),
			Next:   "docker run --rm --network none --entrypoint " + w.python + " " + w.choice.Reference + " --version",
		}
	case w.choice.Reference != "" && errors.As(err, &failed):
		return explainOwn(w.recipe, failed)
	}
	return err
}

// publish gives a fresh image its name, unless another installation has built the
// same meanwhile: that one is in use already, and ours goes with its name.
func (t *Trust) publish(ctx context.Context, b Builder, w wanted, fresh string, always bool) error {
	if !always {
		if _, found, err := t.pick(ctx, b, w); err != nil || found {
			return err
		}
	}
	made, err := b.Inspect(ctx, fresh)
	if err != nil {
		return fmt.Errorf("look up what was built: %w", err)
	}
	if err := b.TagImage(ctx, made.ID, Tag(w.choice, w.content)); err != nil {
		return fmt.Errorf("name what was built: %w", err)
	}
	return nil
}

// dropStage removes what a failed build on a user's image left: nothing needs it, for
// the next try is another image or fails alike. Of a tier it is the next try's cache.
func (t *Trust) dropStage(ctx context.Context, b Builder, w wanted) {
	if w.stage == "" {
		return
	}
	left, err := b.FindImages(ctx, labelStage, w.stage)
	if err != nil {
		return // it is offered for removal as any other stage
	}
	for _, f := range left {
		if f.Labels[LabelKind] == "build" && len(f.Tags) == 0 {
			_ = b.RemoveImage(ctx, f.ID) // likewise
		}
	}
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}

// short names a text in a few digits.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
