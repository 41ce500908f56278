package enginetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// config is what a creation asks for, as far as it decides something here.
type config struct {
	Hostname, User, Image, WorkingDir, StopSignal string
	Env, Entrypoint, Cmd                          []string
	Labels                                        map[string]string
	OpenStdin, StdinOnce, Tty                     bool
	AttachStdin, AttachStdout, AttachStderr       bool
	HostConfig                                    hostConfig
}

type hostConfig struct {
	AutoRemove, ReadonlyRootfs bool
	Memory, NanoCpus           int64
	Runtime                    string
	SecurityOpt, CapDrop       []string
	Tmpfs                      map[string]string
	Mounts                     []mountPoint
	Ulimits                    []ulimit
}

type mountPoint struct {
	Type, Source, Target string
	ReadOnly             bool
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

// container is one container in any state.
type container struct {
	e       *Engine
	d       *daemon // that made it
	id      string
	name    string
	image   *image
	labels  map[string]string
	want    config
	host    map[string]any // the HostConfig as it is echoed
	created time.Time

	process *process
	ended   chan struct{} // closed when the process has ended and its output was read
	removed chan struct{}
	out     sync.Mutex // held while a frame is written to every stream
	streams map[*stream]bool

	// guarded by Engine.mu
	status   string // created, running, paused, exited
	code     int
	oom      bool
	started  time.Time
	finished time.Time
	vanished bool
}

func (e *Engine) create(d *daemon, w http.ResponseWriter, r *request) {
	var want config
	var echoed struct{ HostConfig map[string]any }
	text, err := readAll(r)
	if err != nil || json.Unmarshal(text, &want) != nil || json.Unmarshal(text, &echoed) != nil {
		e.fail(w, http.StatusBadRequest, "invalid JSON: unexpected EOF")
		return
	}
	name := r.URL.Query().Get("name")
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(want.Image)
	if i == nil {
		e.fail(w, http.StatusNotFound, "No such image: "+tagged(want.Image))
		return
	}
	if status, message := e.refuses(name, want); status != 0 {
		e.fail(w, status, message)
		return
	}
	c := &container{
		e: e, d: d, id: newID(), name: name, image: i, want: want, labels: map[string]string{}, host: echo(echoed.HostConfig),
		created: time.Now(), status: "created", ended: make(chan struct{}), removed: make(chan struct{}), streams: map[*stream]bool{},
	}
	if c.name == "" {
		c.name = "unnamed-" + c.id[:8]
	}
	for _, labels := range []map[string]string{i.labels, want.Labels} {
		for name, value := range labels {
			c.labels[name] = value
		}
	}
	e.containers[c.id] = c
	e.announce(c, "create", nil)
	warnings := e.options.CreateWarnings
	if warnings == nil {
		warnings = []string{}
	}
	e.ok(w, http.StatusCreated, map[string]any{"Id": c.id, "Warnings": warnings})
}

// refuses says why an engine would not make such a container. e.mu is held.
func (e *Engine) refuses(name string, want config) (status int, message string) {
	if name != "" && !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`).MatchString(name) {
		return http.StatusBadRequest, "Invalid container name (" + name + "), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
	}
	if other := e.find(name); other != nil && name != "" {
		return http.StatusConflict, fmt.Sprintf("Conflict. The container name \"/%s\" is already in use by container \"%s\". You have to remove (or rename) that container to be able to reuse that name.", name, other.id)
	}
	host := want.HostConfig
	if cpus := runtime.NumCPU(); host.NanoCpus > int64(cpus)*1e9 {
		return http.StatusBadRequest, fmt.Sprintf("Range of CPUs is from 0.01 to %d.00, as there are only %d CPUs available", cpus, cpus)
	}
	if host.Memory > 0 && host.Memory < 6<<20 {
		return http.StatusBadRequest, "Minimum memory limit allowed is 6MB"
	}
	if host.Runtime != "" && host.Runtime != "runc" {
		return http.StatusBadRequest, "Unknown runtime specified " + host.Runtime
	}
	for _, m := range host.Mounts {
		if _, err := os.Stat(m.Source); m.Type == "bind" && err != nil {
			return http.StatusBadRequest, "invalid mount config for type \"bind\": bind source path does not exist: " + m.Source
		}
	}
	if e.flavor.Podman {
		for _, options := range host.Tmpfs {
			if strings.Contains(options, "uid=") {
				return http.StatusInternalServerError, "unknown mount option \"uid\": invalid mount option"
			}
		}
	}
	return 0, ""
}

// echo fills in what an engine decides where nothing was asked for.
func echo(asked map[string]any) map[string]any {
	host := map[string]any{
		"AutoRemove": false, "ReadonlyRootfs": false, "Privileged": false, "Memory": 0, "MemorySwap": 0, "NanoCpus": 0, "OomScoreAdj": 0,
		"IpcMode": "private", "NetworkMode": "default", "CgroupnsMode": "host", "PidMode": "", "UTSMode": "", "UsernsMode": "", "Runtime": "runc",
		"ShmSize": 64 << 20, "Binds": nil, "CapAdd": nil, "CapDrop": nil, "SecurityOpt": nil, "PidsLimit": nil, "Ulimits": nil, "OomKillDisable": false,
		"LogConfig":     map[string]any{"Type": "json-file", "Config": map[string]any{}},
		"RestartPolicy": map[string]any{"Name": "", "MaximumRetryCount": 0},
		"MaskedPaths":   []string{"/proc/kcore"}, "ReadonlyPaths": []string{"/proc/sys"},
	}
	for name, value := range asked {
		if value != nil && value != "" {
			host[name] = value
		}
	}
	return host
}

// find knows an ID, its beginning and a name. e.mu is held.
func (e *Engine) find(name string) *container {
	for _, c := range e.containers {
		if c.id == name || c.name == strings.TrimPrefix(name, "/") || len(name) >= 12 && strings.HasPrefix(c.id, name) {
			return c
		}
	}
	return nil
}

// known is find for a request; it answers when there is none.
func (e *Engine) known(w http.ResponseWriter, r *request) *container {
	e.mu.Lock()
	c := e.find(r.name)
	e.mu.Unlock()
	if c == nil {
		e.fail(w, http.StatusNotFound, "No such container: "+r.name)
	}
	return c
}

func (e *Engine) inspect(_ *daemon, w http.ResponseWriter, r *request) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	pid := 0
	if c.running() {
		pid = c.process.pid
	}
	status := c.status
	if e.flavor.Podman && status == "exited" {
		status = "stopped"
	}
	mounts := []any{}
	for _, m := range c.want.HostConfig.Mounts {
		mounts = append(mounts, map[string]any{"Type": m.Type, "Source": m.Source, "Destination": m.Target, "Mode": "", "RW": !m.ReadOnly, "Propagation": "rprivate"})
	}
	e.ok(w, http.StatusOK, map[string]any{
		"Id": c.id, "Created": stamp(c.created), "Path": c.entry()[0], "Args": c.entry()[1:], "Image": c.image.id, "Name": "/" + c.name,
		"RestartCount": 0, "Driver": "overlay2", "Platform": "linux", "AppArmorProfile": "", "MountLabel": "", "ProcessLabel": "", "ExecIDs": nil,
		"State": map[string]any{
			"Status": status, "Running": c.running(), "Paused": c.status == "paused", "Restarting": false, "OOMKilled": c.oom,
			"Dead": false, "Pid": pid, "ExitCode": c.code, "Error": "", "StartedAt": stamp(c.started), "FinishedAt": stamp(c.finished),
		},
		"HostConfig": c.host, "Mounts": mounts,
		"Config": map[string]any{
			"Hostname": c.want.Hostname, "User": c.user(), "Image": c.want.Image, "Labels": c.labels, "Env": c.environment(), "Entrypoint": c.entry(), "Cmd": nil,
			"WorkingDir": c.directory(), "OpenStdin": c.want.OpenStdin, "StdinOnce": c.want.StdinOnce, "Tty": false, "StopSignal": c.want.StopSignal,
			"AttachStdin": c.want.AttachStdin, "AttachStdout": c.want.AttachStdout, "AttachStderr": c.want.AttachStderr,
		},
		"NetworkSettings": map[string]any{"Networks": map[string]any{"none": map[string]any{}}},
	})
}

func (c *container) running() bool { return c.status == "running" || c.status == "paused" }

func (c *container) entry() []string {
	entry := slices.Concat(c.image.entry, c.want.Cmd)
	if len(c.want.Entrypoint) > 0 {
		entry = slices.Concat(c.want.Entrypoint, c.want.Cmd)
	}
	if len(entry) == 0 {
		return []string{"/bin/sh"}
	}
	return entry
}

func (c *container) environment() []string {
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	return slices.Concat([]string{path}, c.image.env, c.want.Env)
}

func (c *container) user() string {
	if c.want.User != "" {
		return c.want.User
	}
	return c.image.user
}

func (c *container) directory() string {
	if c.want.WorkingDir != "" {
		return c.want.WorkingDir
	}
	return c.image.dir
}

func (e *Engine) list(_ *daemon, w http.ResponseWriter, r *request) {
	wanted, every := filters(r), r.URL.Query().Get("all") != ""
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []any{}
	for _, c := range e.containers {
		if !labelled(c.labels, wanted["label"]) || !every && !c.running() {
			continue
		}
		if names := wanted["name"]; len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains("/"+c.name, n) }) {
			continue
		}
		words := map[string]string{"created": "Created", "running": "Up 1 second", "paused": "Up 1 second (Paused)", "exited": fmt.Sprintf("Exited (%d) 1 second ago", c.code)}
		list = append(list, map[string]any{
			"Id": c.id, "Names": []string{"/" + c.name}, "Image": c.want.Image, "ImageID": c.image.id, "Command": strings.Join(c.entry(), " "),
			"Created": c.created.Unix(), "Ports": []any{}, "Labels": c.labels, "State": c.status, "Status": words[c.status],
			"HostConfig": map[string]any{"NetworkMode": c.host["NetworkMode"]}, "NetworkSettings": map[string]any{"Networks": map[string]any{}}, "Mounts": []any{},
		})
	}
	e.ok(w, http.StatusOK, list)
}

// remove forgets a container that does not run, or kills it first if it is forced.
func (e *Engine) remove(_ *daemon, w http.ResponseWriter, r *request) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	force := r.URL.Query().Get("force") != "" && r.URL.Query().Get("force") != "0"
	e.mu.Lock()
	running := c.running()
	e.mu.Unlock()
	if running && !force {
		e.fail(w, http.StatusConflict, "You cannot remove a running container "+c.id+". Stop the container before attempting removal or force remove")
		return
	}
	if running {
		c.end("KILL")
	}
	e.forget(c)
	e.ok(w, http.StatusNoContent, nil)
}

// forget removes a container that does not run.
func (e *Engine) forget(c *container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.vanished {
		c.vanished = true
		delete(e.containers, c.id)
		e.announce(c, "destroy", nil)
		close(c.removed)
		_ = os.RemoveAll(filepath.Join(e.dir, c.id))
	}
}

// prune removes what does not run, as "docker container prune" does.
func (e *Engine) prune(_ *daemon, w http.ResponseWriter, _ *request) {
	e.ok(w, http.StatusOK, map[string]any{"ContainersDeleted": e.pruneStopped(), "SpaceReclaimed": 0})
}

func (e *Engine) pruneStopped() []string {
	deleted := []string{}
	for _, c := range e.all() {
		e.mu.Lock()
		running := c.running()
		e.mu.Unlock()
		if !running {
			e.forget(c)
			deleted = append(deleted, c.id)
		}
	}
	return deleted
}
