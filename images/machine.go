package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// lock keeps the builds of one user on one engine apart. The kernel gives up the
// lock of a builder that dies. Not only of the same image: another one's build
// shares its first steps, and what is retired is nobody's unfinished work.
func (t *Trust) lock(ctx context.Context, m Machine, progress func(Progress)) (unlock func(), err error) {
	if t.cache == "" {
		return func() {}, nil
	}
	dir, err := t.directory()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(m.ID))
	name := filepath.Join(dir, "build-"+hex.EncodeToString(sum[:6])+".lock")
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		held, err := owner.TryLock(name)
		if errors.Is(err, errors.ErrUnsupported) {
			return func() {}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("wait for other builds: %w", err)
		}
		if held != nil {
			return func() { _ = held.Close() }, nil // the end of the process would do it as well
		}
		if !told {
			progress(Progress{Note: true, Text: "another brig is building an image on this engine; waiting for it"})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another brig's build: %w", context.Cause(ctx))
		}
	}
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
func (t *Trust) pinName() string {
	fresh := randomName()
	if t.cache == "" {
		return fresh
	}
	dir, err := t.directory()
	if err != nil {
		return fresh
	}
	path := filepath.Join(dir, "pin")
	if text, err := os.ReadFile(path); err == nil && len(text) == len(fresh) && strings.Trim(string(text), "0123456789abcdef") == "" {
		return string(text)
	}
	_ = os.WriteFile(path, []byte(fresh), 0o600) // without it the next build has another name
	return fresh
}

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
