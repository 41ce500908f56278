package main

import (
	"context"
	"os"

	"brig/orchestrator/audit"
	"brig/orchestrator/config"
)

// record puts the beginning or the end of this brig into the audit log, with what was
// found and every setting that is not as it comes.
func (d *daemon) record(ctx context.Context, event, found string) error {
	v := readVersion()
	_, err := d.a.audit.Append(ctx, audit.Entry{Kind: audit.KindBrig, Actor: "brig", Data: audit.EventData{Event: event, Detail: found, Values: map[string]any{
		"version": v.Version, "commit": v.Commit, "pid": os.Getpid(), "settings": chosen(d.settings.Load().Loaded),
	}}})
	return err
}

// chosen are the settings that somebody has set, as they are shown.
func chosen(l config.Loaded) map[string]string {
	out := map[string]string{}
	for _, r := range config.Render(l) {
		if r.Value != r.Default {
			out[r.Key] = redact(r.Value)
		}
	}
	return out
}

// settingChange is one setting that a reload puts in force.
type settingChange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// recordSettings has on the disk what a reload changes, before it is in force.
func (d *daemon) recordSettings(ctx context.Context, old, next config.Loaded) error {
	values, before := map[string]settingChange{}, config.Render(old)
	for i, r := range config.Render(next) {
		if was := before[i].Value; was != r.Value {
			values[r.Key] = settingChange{redact(was), redact(r.Value)}
		}
	}
	if len(values) == 0 {
		return nil
	}
	_, err := d.a.audit.Append(ctx, audit.Entry{Kind: audit.KindSettings, Actor: "brig", Data: audit.EventData{Event: "changed", Values: values}})
	return err
}

// recordRefusal has on the disk that a reload put nothing in force, and why.
func (d *daemon) recordRefusal(why string) error {
	_, err := d.a.audit.Append(context.Background(), audit.Entry{Kind: audit.KindSettings, Actor: "brig", Data: audit.EventData{Event: "refused", Detail: why}})
	return err
}
