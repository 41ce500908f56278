package selftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"brig/orchestrator/private"
	"brig/orchestrator/sandbox"
)

const (
	recordEnd = ".json"
	maxRecord = 8 << 20 // bytes
)

// Save keeps a report in dir as the latest of its backend and variant, readable by
// this user alone. It replaces at once: whoever reads beside it gets a whole one.
// Reports on some of the probes only are refused: they would hide what the rest saw.
func Save(dir string, r Report) error {
	if len(r.Probes) != len(Catalogue()) {
		return errors.New("keep the self-test's report: it is about some of the probes only")
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = private.Replace(filepath.Join(dir, recordName(r)), raw, private.FileMode)
	}
	if err != nil {
		return fmt.Errorf("keep the self-test's report: %w", err)
	}
	return nil
}

// recordName is made of what brig itself chose or escaped.
func recordName(r Report) string {
	name := string(r.Backend)
	if r.Variant != "" {
		name += "-" + r.Variant
	}
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '_'
	}, name) + recordEnd
}

// Load returns the kept reports, the latest first. What cannot be read is as if it had never
// been: a self-test that nobody can show was not made.
func Load(dir string) []Report {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []Report
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordEnd) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err != nil || info.Size() > maxRecord {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		var r Report
		if err != nil || json.Unmarshal(raw, &r) != nil || r.Format != ReportFormat {
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Report) int { return b.Started.Compare(a.Started) })
	return all
}

// Stale says whether a report is about something else than what would run now, and
// why, in words that follow "stale:". An unknown boot makes none stale by itself.
func Stale(r Report, now Machine, version, policy string) (reason string, stale bool) {
	switch m := r.Machine; {
	case m.BootID != now.BootID:
		return "the machine was restarted since", true
	case m.Kernel != now.Kernel || m.OS != now.OS || m.Arch != now.Arch:
		return "the kernel is another one", true
	case m.UID != now.UID:
		return "it was made by another user", true
	case r.Brig != version:
		return "it was made by another build of brig", true
	case r.Policy != policy:
		return "what would be enforced has changed since", true
	}
	return "", false
}

// Due says why the self-test of a backend should be run again by itself; empty: it
// should not. It is for a brig that lives.
func Due(kept []Report, kind sandbox.Kind, variant string, now Machine, version, policy string) string {
	for _, r := range kept {
		if r.Backend != kind || r.Variant != variant {
			continue
		}
		if reason, stale := Stale(r, now, version, policy); stale {
			return reason
		}
		if r.Holds == CouldNotTell {
			return "the last one could not tell"
		}
		return ""
	}
	return "it was never run"
}

// Verdicts are the layers' own, as the resolution wants them.
func Verdicts(r Report) map[sandbox.LayerID]sandbox.Verdict {
	out := make(map[sandbox.LayerID]sandbox.Verdict, len(r.Layers))
	for _, l := range r.Layers {
		out[l.Layer.ID] = l.Verdict
	}
	return out
}
