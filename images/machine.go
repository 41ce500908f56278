package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"brig/orchestrator/owner"
)

// lockPoll is how often a held lock is tried again. No system tells when a lock of
// another process becomes free in a way that a context could cancel.
const lockPoll = 200 * time.Millisecond

// lock keeps the builds of one group by one user on one engine apart. The kernel
// gives up the lock of a builder that dies, and no build is without a limit.
func (t *Trust) lock(ctx context.Context, m Machine, c Choice, progress func(Progress)) (unlock func(), err error) {
	if t.cache == "" {
		return func() {}, nil
	}
	dir, err := t.directory()
	if err != nil {
		return nil, err
	}
	base := filepath.Join(dir, "build-"+short(m.ID+" "+c.group()))
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := ""; ; {
		held, err := owner.TryLock(base + ".lock")
		if errors.Is(err, errors.ErrUnsupported) {
			return func() {}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("wait for other builds: %w", err)
		}
		if held != nil {
			// Beside the lock, not in it: some systems let nobody read what is locked. It is for people only.
			_ = os.WriteFile(base+".holder", fmt.Appendf(nil, "process %d builds the %s\n", os.Getpid(), c.Name()), 0o600)
			return func() {
				_ = os.Remove(base + ".holder")
				_ = held.Close() // the end of the process would do it as well
			}, nil
		}
		if who := holder(base + ".holder"); told == "" || who != told {
			progress(Progress{Note: true, Text: fmt.Sprintf("another brig is building an image on this engine (%s); waiting for it, at most %s, which no --timeout counts; Ctrl-C ends the wait", who, t.limit)})
			told = who
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another brig's build: %w", context.Cause(ctx))
		}
	}
}

// holder is what the builder that is waited for said about itself.
func holder(name string) string {
	text, err := os.ReadFile(name)
	if line := strings.TrimSpace(string(text)); err == nil && line != "" {
		return line
	}
	return "it has not said which yet"
}

// directory is made when it is needed first.
func (t *Trust) directory() (string, error) {
	dir := filepath.Join(t.cache, "images")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory for locks of builds: %w", err)
	}
	return dir, nil
}

// pinName is part of the name that a base has for the time of a build. It is this
// installation's own, so that nobody moves it under a build, and always the same, so
// that what a killed build leaves is taken up by the next one. The lock is held.
func (t *Trust) pinName(c Choice) string {
	fresh, group := randomName(), "-"+short(c.group())
	if t.cache == "" {
		return fresh + group
	}
	dir, err := t.directory()
	if err != nil {
		return fresh + group
	}
	path := filepath.Join(dir, "pin")
	if text, err := os.ReadFile(path); err == nil && len(text) == len(fresh) && strings.Trim(string(text), "0123456789abcdef") == "" {
		return string(text) + group
	}
	_ = os.WriteFile(path, []byte(fresh), 0o600) // without it the next build has another name
	return fresh + group
}

// markFailed remembers that a user's image was found to be unusable, or forgets it:
// until the image or the recipe is another one, a build would only find the same.
func (t *Trust) markFailed(w wanted, err error) {
	if t.cache == "" || w.choice.Reference == "" {
		return
	}
	dir, broken := t.directory()
	if broken != nil {
		return
	}
	name := failureFile(dir, w)
	var unusable *OwnImageError
	if !errors.As(err, &unusable) || unusable.Code == codeHangs { // that may have been the machine
		if err == nil {
			_ = os.Remove(name)
		}
		return
	}
	if text, broken := json.Marshal(failure{unusable.Code, unusable.Reason, unusable.Next}); broken == nil {
		_ = os.WriteFile(name, text, 0o600) // without it the next one finds out by itself
	}
}

// failure is what is remembered of an *OwnImageError.
type failure struct{ Code, Reason, Next string }

// failed is what markFailed remembered; nil: nothing.
func (t *Trust) failed(w wanted) *OwnImageError {
	if t.cache == "" || w.choice.Reference == "" {
		return nil
	}
	text, err := os.ReadFile(failureFile(filepath.Join(t.cache, "images"), w))
	var f failure
	if err != nil || json.Unmarshal(text, &f) != nil || f.Code == "" {
		return nil
	}
	return &OwnImageError{Reference: w.choice.Reference, Code: f.Code, Reason: f.Reason, Next: f.Next}
}

func failureFile(dir string, w wanted) string { return filepath.Join(dir, "unusable-"+w.content[:16]) }

// markUsed notes that an image was taken for a session. It is a help for people and
// for the retention, so a failure changes nothing else.
func (t *Trust) markUsed(r Ref) {
	if t.cache == "" || r.ID == "" {
		return
	}
	dir, err := t.directory()
	if err != nil {
		return
	}
	name, now := useFile(dir, r.ID), time.Now()
	if err := os.Chtimes(name, now, now); err != nil {
		_ = os.WriteFile(name, nil, 0o600)
	}
}

// lastUsed is zero where nothing is known.
func (t *Trust) lastUsed(id string) time.Time {
	if t.cache == "" {
		return time.Time{}
	}
	info, err := os.Stat(useFile(filepath.Join(t.cache, "images"), id))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (t *Trust) forgetUse(id string) {
	if t.cache != "" {
		_ = os.Remove(useFile(filepath.Join(t.cache, "images"), id))
	}
}

func useFile(dir, id string) string {
	return filepath.Join(dir, "used-"+filepath.Base(strings.TrimPrefix(id, "sha256:")))
}
