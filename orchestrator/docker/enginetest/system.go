package enginetest

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (e *Engine) ping(_ *daemon, w http.ResponseWriter, r *request) {
	e.headers(w)
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	w.Header().Set("Pragma", "no-cache")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte("OK"))
	}
}

func (e *Engine) version(_ *daemon, w http.ResponseWriter, _ *request) {
	name := "Engine"
	if e.flavor.Podman {
		name = "Podman Engine"
	}
	const kernel = "6.1.0-test"
	e.ok(w, http.StatusOK, map[string]any{
		"Platform": map[string]any{"Name": ""},
		"Components": []any{map[string]any{"Name": name, "Version": e.flavor.Version, "Details": map[string]string{
			"ApiVersion": e.flavor.API, "MinAPIVersion": e.flavor.MinAPI, "Arch": runtime.GOARCH, "Os": "linux",
			"BuildTime": "2026-01-01T00:00:00.000000000+00:00", "Experimental": "false", "GitCommit": "fake", "GoVersion": runtime.Version(), "KernelVersion": kernel,
		}}},
		"Version": e.flavor.Version, "ApiVersion": e.flavor.API, "MinAPIVersion": e.flavor.MinAPI, "GitCommit": "fake",
		"GoVersion": runtime.Version(), "Os": "linux", "Arch": runtime.GOARCH, "KernelVersion": kernel,
		"BuildTime": "2026-01-01T00:00:00.000000000+00:00",
	})
}

// info says that the machine can do everything; that nothing was applied is for the
// posture to find out.
func (e *Engine) info(_ *daemon, w http.ResponseWriter, _ *request) {
	var warnings any
	if len(e.options.Warnings) > 0 {
		warnings = e.options.Warnings
	}
	e.mu.Lock()
	count, images := len(e.containers), len(e.images)
	e.mu.Unlock()
	e.ok(w, http.StatusOK, map[string]any{
		"ID": e.dir, "Name": "fake", "Containers": count, "Images": images, "Driver": "overlay2",
		"MemoryLimit": true, "SwapLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true, "PidsLimit": true,
		"OomKillDisable": true, "CgroupDriver": "cgroupfs", "CgroupVersion": "1", "KernelVersion": "6.1.0-test",
		"OperatingSystem": "an engine for tests", "OSType": "linux", "Architecture": runtime.GOARCH,
		"SystemTime": time.Now().UTC().Format(time.RFC3339Nano),
		"NCPU":       runtime.NumCPU(), "MemTotal": int64(8 << 30), "ServerVersion": e.flavor.Version,
		"Runtimes":       map[string]any{"runc": map[string]string{"path": "runc"}},
		"DefaultRuntime": "runc", "SecurityOptions": []string{"name=seccomp,profile=default"},
		"LiveRestoreEnabled": e.options.LiveRestore, "Warnings": warnings,
	})
}

// event is one thing that happened.
type event struct {
	Status   string     `json:"status"`
	ID       string     `json:"id"`
	From     string     `json:"from"`
	Type     string     `json:"Type"`
	Action   string     `json:"Action"`
	Actor    eventActor `json:"Actor"`
	Scope    string     `json:"scope"`
	Time     int64      `json:"time"`
	TimeNano int64      `json:"timeNano"`
}

type eventActor struct {
	ID         string
	Attributes map[string]string
}

// listener is one client that follows events.
type listener struct {
	filters map[string][]string
	queue   chan event
}

// announce tells everyone who follows. e.mu is held.
func (e *Engine) announce(c *container, action string, more map[string]string) {
	attributes := map[string]string{"image": c.image.id, "name": c.name}
	for name, value := range c.labels {
		attributes[name] = value
	}
	for name, value := range more {
		attributes[name] = value
	}
	if podman := map[string]string{"die": "died", "destroy": "remove"}[action]; e.flavor.Podman && podman != "" {
		action = podman
	}
	now := e.tick(time.Now().UnixNano())
	ev := event{
		Status: action, ID: c.id, From: c.image.id, Type: "container", Action: action,
		Actor: eventActor{ID: c.id, Attributes: attributes}, Scope: "local", Time: now / 1e9, TimeNano: now,
	}
	const remembered = 256 // as many as a daemon does
	if e.history = append(e.history, ev); len(e.history) > remembered {
		e.history = e.history[1:]
	}
	for l := range e.listeners {
		if l.wants(ev) {
			select {
			case l.queue <- ev:
			default: // a daemon drops what a client does not read, too
			}
		}
	}
}

// nanoseconds reads a time as clients send it, "seconds.nanoseconds"; 0: none.
func nanoseconds(s string) int64 {
	whole, part, _ := strings.Cut(s, ".")
	seconds, _ := strconv.ParseInt(whole, 10, 64)
	nanos, _ := strconv.ParseInt((part + "000000000")[:9], 10, 64)
	return seconds*1e9 + nanos
}

func (l *listener) wants(ev event) bool {
	for name, values := range l.filters {
		switch {
		case name == "label" && !labelled(ev.Actor.Attributes, values),
			name == "event" && !slices.Contains(values, ev.Action),
			name == "type" && !slices.Contains(values, ev.Type),
			name == "container" && !slices.Contains(values, ev.ID) && !slices.Contains(values, ev.Actor.Attributes["name"]):
			return false
		}
	}
	return true
}

func (e *Engine) events(d *daemon, w http.ResponseWriter, r *request) {
	l := &listener{filters: filters(r), queue: make(chan event, 512)}
	e.mu.Lock()
	if since := nanoseconds(r.URL.Query().Get("since")); since > 0 {
		for _, ev := range e.history {
			if ev.TimeNano >= since && l.wants(ev) {
				l.queue <- ev
			}
		}
	}
	e.listeners[l] = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, l)
	}()
	e.headers(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	encoder := json.NewEncoder(w)
	for {
		select {
		case ev := <-l.queue:
			if !d.pass() || encoder.Encode(ev) != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		case <-d.gone:
			abort()
		}
	}
}
