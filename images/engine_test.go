package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// memoryEngine is a working Builder in memory: what is built is found again by
// the labels that the recipe would give it.
type memoryEngine struct {
	mu      sync.Mutex
	images  map[string]*Found // by ID
	bases   map[string]string // reference → ID
	inUse   map[string]bool
	builds  int
	last    Request
	context map[string]string // of the last build
	fail    error             // of the next build
	now     time.Time
}

func newMemoryEngine() *memoryEngine {
	return &memoryEngine{
		images: map[string]*Found{}, bases: map[string]string{DefaultBase: "sha256:base1"},
		inUse: map[string]bool{}, now: time.Unix(1_700_000_000, 0),
	}
}

func (e *memoryEngine) FindImages(_ context.Context, label, value string) ([]Found, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Found
	for _, f := range e.images {
		if f.Labels[label] == value {
			found = append(found, *f)
		}
	}
	return found, nil
}

func (e *memoryEngine) ImageID(_ context.Context, reference string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id, ok := e.bases[reference]; ok {
		return id, nil
	}
	return "", fmt.Errorf("look up %s: %w", reference, ErrNoImage)
}

func (e *memoryEngine) Build(_ context.Context, r Request, progress func(Progress)) error {
	files, err := readTar(r.Context)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.fail; err != nil {
		e.fail = nil
		return err
	}
	if progress != nil {
		progress(Progress{Step: 1, Total: 1, Text: "FROM base", Instruction: true})
	}
	e.builds++
	e.last, e.context = r, files
	for _, f := range e.images { // a tag moves
		f.Tags = slices.DeleteFunc(f.Tags, func(tag string) bool { return tag == r.Tag })
	}
	e.now = e.now.Add(time.Second)
	id := fmt.Sprintf("sha256:image%d", e.builds)
	e.images[id] = &Found{
		ID: id, Tags: []string{r.Tag}, Created: e.now, Size: 100,
		Labels: map[string]string{
			LabelKind: "runner", LabelTier: r.Args["TIER"], LabelRunner: r.Args["RUNNER_HASH"],
			LabelContent: r.Args["CONTENT_HASH"], LabelBase: r.Args["BASE_ID"],
		},
	}
	return nil
}

func (e *memoryEngine) RemoveImage(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inUse[id] {
		return errors.New("a container uses it")
	}
	delete(e.images, id)
	return nil
}

func readTar(r io.Reader) (map[string]string, error) {
	files := map[string]string{}
	for reader := tar.NewReader(r); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(text)
		}
	}
}

func ensure(t *testing.T, trust *Trust, e *memoryEngine, tier Tier) Ref {
	t.Helper()
	ref, err := trust.Ensure(t.Context(), e, tier, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}
