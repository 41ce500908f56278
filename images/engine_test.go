package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// memoryEngine is a working Builder in memory: what is built is found again by
// the labels that the recipe gives it.
type memoryEngine struct {
	mu       sync.Mutex
	images   map[string]*Found  // by ID
	bases    map[string]Details // by reference
	pins     map[string]string  // name → ID
	uses     map[string]int
	parents  map[string]string // image → the one that it needs
	builds   int
	last     Request
	context  map[string]string // of the last build
	fail     error             // of the next build
	building func()            // called in each build, without the lock
	now      time.Time
}

func newMemoryEngine() *memoryEngine {
	return &memoryEngine{
		images: map[string]*Found{}, pins: map[string]string{}, uses: map[string]int{}, parents: map[string]string{},
		bases: map[string]Details{DefaultBase: {ID: "sha256:base1", OS: "linux", Architecture: "amd64"}},
		now:   time.Now().Add(-time.Minute),
	}
}

func (e *memoryEngine) Machine(context.Context) (Machine, error) {
	return Machine{ID: "memory", Architecture: "amd64"}, nil
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

func (e *memoryEngine) Inspect(_ context.Context, reference string) (Details, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d, ok := e.bases[reference]; ok {
		return d, nil
	}
	for id, f := range e.images {
		if slices.Contains(f.Tags, reference) {
			return Details{ID: id, Labels: f.Labels}, nil
		}
	}
	return Details{}, fmt.Errorf("look up %s: %w", reference, ErrNoImage)
}

func (e *memoryEngine) TagImage(_ context.Context, id, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.images[id] == nil {
		e.pins[name] = id
		return nil
	}
	e.untag(name)
	e.images[id].Tags = append(e.images[id].Tags, name)
	return nil
}

func (e *memoryEngine) Build(_ context.Context, r Request, progress func(Progress)) error {
	files, err := readTar(r.Context)
	if err != nil {
		return err
	}
	if e.building != nil {
		e.building()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.fail; err != nil {
		e.fail = nil
		return err
	}
	if e.pins[r.Args["BASE"]] == "" {
		return fmt.Errorf("there is no %s", r.Args["BASE"])
	}
	progress(Progress{Step: 1, Total: 1, Text: "FROM base", Instruction: true})
	e.builds++
	e.last, e.context = r, files
	e.untag(r.Tag)
	e.now = e.now.Add(time.Second)
	id := fmt.Sprintf("sha256:image%d", e.builds)
	e.images[id] = &Found{ID: id, Tags: []string{r.Tag}, Created: e.now, Size: 100, Labels: e.labels(r, files[r.Dockerfile])}
	return nil
}

// untag takes a name away, because it moves or goes. It tells whose it was.
func (e *memoryEngine) untag(name string) (id string) {
	for _, f := range e.images {
		if slices.Contains(f.Tags, name) {
			id = f.ID
			f.Tags = slices.DeleteFunc(slices.Clone(f.Tags), func(tag string) bool { return tag == name })
		}
	}
	return id
}

// labels reads the LABEL instruction of the recipe.
func (e *memoryEngine) labels(r Request, dockerfile string) map[string]string {
	labels := map[string]string{}
	text := dockerfile[strings.LastIndex(dockerfile, "\nLABEL "):]
	for _, m := range regexp.MustCompile(`(dev\.brig\.\w+)=("[^"]*"|\S+)`).FindAllStringSubmatch(text, -1) {
		value := strings.Trim(m[2], `"`)
		if name, ok := strings.CutPrefix(value, "${"); ok {
			value = r.Args[strings.TrimSuffix(name, "}")]
		}
		labels[m[1]] = value
	}
	return labels
}

func (e *memoryEngine) RemoveImage(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pins, id)
	if named := e.untag(id); named != "" {
		if len(e.images[named].Tags) == 0 {
			delete(e.images, named)
		}
		return nil
	}
	if e.uses[id] > 0 {
		return fmt.Errorf("a container uses it: %w", ErrInUse)
	}
	for child, parent := range e.parents {
		if parent == id && e.images[child] != nil {
			return fmt.Errorf("%s stands on it: %w", child, ErrInUse)
		}
	}
	delete(e.images, id)
	return nil
}

func (e *memoryEngine) Uses(context.Context) (map[string]int, error) { return e.uses, nil }

func readTar(text []byte) (map[string]string, error) {
	files := map[string]string{}
	for reader := tar.NewReader(bytes.NewReader(text)); ; {
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
	return ensureChoice(t, trust, e, Choice{Tier: tier})
}

func ensureChoice(t *testing.T, trust *Trust, e *memoryEngine, c Choice) Ref {
	t.Helper()
	ref, err := trust.Ensure(t.Context(), e, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.pins) != 0 {
		t.Errorf("names were left: %v", e.pins)
	}
	return ref
}
