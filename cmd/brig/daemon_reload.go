package main

import (
	"context"
	"net"
	"time"

	"brig/orchestrator/config"
)

// reload reads the settings anew. What is wrong leaves everything as it was.
func (d *daemon) reload() {
	notifySupervisor(d.p.env("NOTIFY_SOCKET"), "RELOADING=1")
	defer notifySupervisor(d.p.env("NOTIFY_SOCKET"), "READY=1")
	old := d.settings.Load()
	next, err := d.p.loadSettings()
	if err != nil {
		d.refuseReload("the settings are wrong, the earlier ones stay in force", err)
		return
	}
	for _, key := range keepStarted(&next.Config, old.Config) {
		next.Sources[key] = old.Sources[key]
		d.log.Warn().Str("key", key).Msg("this setting takes a new start")
		d.p.tui.note("%s takes a new start", key)
	}
	if err := d.recordSettings(context.Background(), old.Loaded, next.Loaded); err != nil {
		d.refuseReload("the change of settings cannot be written down, the earlier ones stay in force", err)
		return
	}
	if err := d.a.orchestrator.Reconfigure(next.Config); err != nil {
		d.refuseReload("the settings cannot be put in force, the earlier ones stay", err)
		return
	}
	d.settings.Store(&next)
	d.store.SetRetention(retentionOf(next.Config))
	d.service.Reconfigured()
	d.log.Info().Str("file", next.Path).Msg("the settings were read anew")
	d.p.tui.note("the settings were read anew")
}

// refuseReload tells whoever looks, now in the foreground or later, that the settings
// are not those that somebody meant to put in force.
func (d *daemon) refuseReload(what string, err error) {
	d.log.Error().Err(err).Msg(what)
	d.p.tui.warn(escapeLine(what + ": " + sentences(err)))
	if err := d.recordRefusal(what + ": " + sentences(err)); err != nil {
		d.log.Error().Err(err).Msg("that the settings were refused cannot be written down")
	}
}

// keepStarted keeps what the parts were made with, and tells which keys differ.
func keepStarted(next *config.Config, old config.Config) (changed []string) {
	keep := func(key string, differs bool) {
		if differs {
			changed = append(changed, key)
		}
	}
	keep("server.listen", next.Server != old.Server)
	keep("docker.endpoint", next.Docker.Endpoint != old.Docker.Endpoint)
	keep("docker.context", next.Docker.Context != old.Docker.Context)
	keep("host.python", next.Host.Python != old.Host.Python)
	keep("orchestrator.keep_sessions", next.Orchestrator != old.Orchestrator)
	next.Server, next.Orchestrator = old.Server, old.Orchestrator
	next.Docker.Endpoint, next.Docker.Context, next.Host.Python = old.Docker.Endpoint, old.Docker.Context, old.Host.Python
	return changed
}

// notifySupervisor tells systemd, where it started brig, how brig is. Nobody else
// listens there, and nothing depends on it.
func notifySupervisor(socket, state string) {
	if socket == "" {
		return
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(context.Background(), "unixgram", socket)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(state))
}
