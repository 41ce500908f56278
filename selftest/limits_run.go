package selftest

import "context"

func limited(_ context.Context, _ stage, probes []Probe) map[string]tried {
	out := make(map[string]tried, len(probes))
	for _, p := range probes {
		out[p.ID] = tried{control: Outcome{Detail: "not attempted"}}
	}
	return out
}
