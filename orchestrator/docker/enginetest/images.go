package enginetest

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// image is a runner image or a base.
type image struct {
	id      string
	tags    []string
	labels  map[string]string
	env     []string
	user    string
	dir     string // working directory
	entry   []string
	runner  string // directory with start.py; empty for a base
	shared  bool   // it belongs to another engine
	created time.Time
}

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (e *Engine) addBase(tag string) {
	i := &image{id: "sha256:" + newID(), tags: []string{tag}, created: time.Now()}
	e.images[i.id] = i
}

func (e *Engine) share(other *Engine) {
	other.mu.Lock()
	defer other.mu.Unlock()
	for id, i := range other.images {
		copied := *i
		copied.tags, copied.shared = slices.Clone(i.tags), true
		e.images[id] = &copied
	}
}

// findImage knows an ID, its beginning and a tag. e.mu is held.
func (e *Engine) findImage(name string) *image {
	for id, i := range e.images {
		if id == name || len(name) >= 12 && strings.HasPrefix(strings.TrimPrefix(id, "sha256:"), name) ||
			slices.Contains(i.tags, name) || slices.Contains(i.tags, name+":latest") {
			return i
		}
	}
	return nil
}

func (e *Engine) listImages(_ *daemon, w http.ResponseWriter, r *request) {
	wanted := filters(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []any{}
	for _, i := range e.images {
		if !labelled(i.labels, wanted["label"]) || len(wanted["reference"]) > 0 && !slices.ContainsFunc(wanted["reference"], func(t string) bool { return slices.Contains(i.tags, t) }) {
			continue
		}
		tags := i.tags
		if len(tags) == 0 {
			tags = []string{"<none>:<none>"}
		}
		list = append(list, map[string]any{
			"Containers": -1, "Created": i.created.Unix(), "Id": i.id, "Labels": i.labels, "ParentId": "",
			"RepoDigests": nil, "RepoTags": tags, "SharedSize": -1, "Size": 1 << 20, "VirtualSize": 1 << 20,
		})
	}
	e.ok(w, http.StatusOK, list)
}

func (e *Engine) inspectImage(_ *daemon, w http.ResponseWriter, r *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(r.name)
	if i == nil {
		e.fail(w, http.StatusNotFound, "no such image: "+r.name+": No such image: "+tagged(r.name))
		return
	}
	e.ok(w, http.StatusOK, map[string]any{
		"Id": i.id, "RepoTags": i.tags, "RepoDigests": []string{}, "Parent": "", "Comment": "",
		"Created": i.created.UTC().Format(time.RFC3339Nano), "Architecture": runtime.GOARCH, "Os": "linux", "Size": 1 << 20,
		"Config":      map[string]any{"User": i.user, "Env": i.env, "Cmd": nil, "WorkingDir": i.dir, "Entrypoint": i.entry, "Labels": i.labels},
		"RootFS":      map[string]any{"Type": "layers", "Layers": []string{i.id}},
		"Author":      "",
		"GraphDriver": map[string]any{"Name": "overlay2", "Data": map[string]string{}},
	})
}

func tagged(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return name + ":latest"
}

func (e *Engine) tagImage(_ *daemon, w http.ResponseWriter, r *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(r.name)
	if i == nil {
		e.fail(w, http.StatusNotFound, "No such image: "+tagged(r.name))
		return
	}
	name := r.URL.Query().Get("repo")
	if tag := r.URL.Query().Get("tag"); tag != "" {
		name += ":" + tag
	}
	e.giveName(i, tagged(name))
	e.ok(w, http.StatusCreated, nil)
}

// giveName moves a name to an image. e.mu is held.
func (e *Engine) giveName(to *image, name string) {
	for _, i := range e.images {
		i.tags = slices.DeleteFunc(i.tags, func(t string) bool { return t == name })
	}
	to.tags = append(to.tags, name)
}

func (e *Engine) removeImage(_ *daemon, w http.ResponseWriter, r *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(r.name)
	if i == nil {
		e.fail(w, http.StatusNotFound, "No such image: "+tagged(r.name))
		return
	}
	if slices.Contains(i.tags, r.name) && len(i.tags) > 1 {
		i.tags = slices.DeleteFunc(i.tags, func(t string) bool { return t == r.name })
		e.ok(w, http.StatusOK, []any{map[string]string{"Untagged": r.name}})
		return
	}
	for _, c := range e.containers {
		if c.image == i && !slices.Contains(i.tags, r.name) {
			e.fail(w, http.StatusConflict, "conflict: unable to delete "+r.name+" (cannot be forced) - image is being used by running container "+c.id[:12])
			return
		}
	}
	e.ok(w, http.StatusOK, e.dropImage(i))
}

// dropImage takes the names away, and the image if no container is made of it.
func (e *Engine) dropImage(i *image) []any {
	var done []any
	for _, tag := range i.tags {
		done = append(done, map[string]string{"Untagged": tag})
	}
	i.tags = nil
	for _, c := range e.containers {
		if c.image == i {
			return done
		}
	}
	delete(e.images, i.id)
	if i.runner != "" && !i.shared {
		_ = os.RemoveAll(i.runner)
	}
	return append(done, map[string]string{"Deleted": i.id})
}

// RemoveImages removes every image that was built, as "system prune -a" by another
// hand does: what containers are made of only loses its names.
func (e *Engine) RemoveImages() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.images {
		if i.runner != "" {
			e.dropImage(i)
		}
	}
}
