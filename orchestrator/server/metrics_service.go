package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"brig/orchestrator/service"
)

// collector shows what the service counts. All of one answer is of one moment.
type collector struct {
	server *Server
	of     func() service.Counts
}

// Describe says nothing: which series there are depends on what has happened.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// series makes the metrics of one answer.
type series struct{ out chan<- prometheus.Metric }

func (s series) put(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
	names, values := split(labels)
	s.out <- prometheus.MustNewConstMetric(prometheus.NewDesc("brig_"+name, help, names, nil), kind, value, values...)
}

func (s series) now(name, help string, value float64, labels ...string) {
	s.put(prometheus.GaugeValue, name, help, value, labels...)
}

func (s series) total(name, help string, value uint64, labels ...string) {
	s.put(prometheus.CounterValue, name+"_total", help, float64(value), labels...)
}

func (s series) times(name, help string, h service.Histogram, labels ...string) {
	names, values := split(labels)
	buckets := make(map[float64]uint64, len(h.Bounds))
	for i, bound := range h.Bounds {
		if i < len(h.Counts) {
			buckets[bound] = h.Counts[i]
		}
	}
	s.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("brig_"+name+"_seconds", help, names, nil), h.Count, h.Sum, buckets, values...)
}

// split takes names and values of labels apart.
func split(labels []string) (names, values []string) {
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return names, values
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Collect asks the service once.
func (c collector) Collect(out chan<- prometheus.Metric) {
	n, s := c.of(), series{out}
	s.now("info", "Which brig this is.", 1, "version", c.server.options.Version)
	s.now("start_time_seconds", "When this brig began, as a unix time.", float64(n.Started.UnixMilli())/1000)
	s.now("degraded", "1 while another backend than the configured one would run code.", yes(n.Degraded))
	s.now("weakened", "1 while a promised layer is not enforced.", yes(n.Weakened))
	resolved := n.Resolved
	if resolved == "" {
		resolved = "none"
	}
	s.now("resolved", "The backend that code would run on now.", 1, "backend", resolved)
	for k, v := range n.Sessions {
		s.now("sessions", "Open sessions.", float64(v), kindLabels(k)...)
	}
	for k, v := range n.Opened {
		s.total("sessions_opened", "Sessions that were opened.", v, kindLabels(k)...)
	}
	for reason, v := range n.Closed {
		s.total("sessions_closed", "Sessions that were closed.", v, "reason", reason)
	}
	s.total("sessions_adopted", "Sessions taken over from an earlier brig.", n.Adopted)
	for code, v := range n.Refused {
		s.total("refused", "Sessions and runs that could not start.", v, "code", code)
	}
	for kind, h := range n.Open {
		s.times("session_open", "From the request to an open session.", h, "backend", string(kind))
	}
	c.runs(n, s)
	for kind, v := range n.Reaped {
		s.total("orphans_reaped", "Instances without a brig that were removed.", v, "backend", string(kind))
	}
	s.now("streams", "Followers of events.", float64(n.Streams))
	s.total("events_missed", "Times that a follower was too slow for all events.", n.Missed)
	s.total("audit_failures", "Lines that the audit log did not take.", n.AuditFailures)
	s.total("store_failures", "Records that the store did not take.", n.StoreFailures)
	c.connections(s)
}

func (c collector) runs(n service.Counts, s series) {
	s.now("runs_running", "Runs that have an interpreter.", float64(n.Running))
	s.now("runs_queued", "Runs that wait for one.", float64(n.Queued))
	for k, v := range n.Runs {
		s.total("runs", "Runs that ended.", v, "backend", string(k.Backend), "cause", string(k.Cause))
	}
	for kind, h := range n.Elapsed {
		s.times("run", "How long runs took.", h, "backend", string(kind))
	}
	s.times("run_wait", "How long runs waited for earlier ones.", n.Waited)
	ready, wanted, preparing := map[string]int{}, map[string]int{}, map[string]int{}
	for _, shelf := range n.Pool.Shelves { // there may be several of a backend
		kind := string(shelf.Kind)
		ready[kind] += shelf.Ready
		wanted[kind] += shelf.Wanted
		preparing[kind] += shelf.Preparing
	}
	for kind := range ready {
		s.now("pool_ready", "Instances that are prepared.", float64(ready[kind]), "backend", kind)
		s.now("pool_wanted", "Instances that should be.", float64(wanted[kind]), "backend", kind)
		s.now("pool_preparing", "Instances that are being prepared.", float64(preparing[kind]), "backend", kind)
	}
	for outcome, v := range map[string]int64{
		"warm": n.Pool.Warm, "cold": n.Pool.Cold, "failed": n.Pool.Failed, "lost": n.Pool.Lost,
		"unbound": n.Pool.Unbound, "expired": n.Pool.Expired, "drained": n.Pool.Drained,
	} {
		s.total("starts", "What became of instances: handed out warm, started cold, failed, lost, unbound, expired, drained.", uint64(max(v, 0)), "outcome", outcome)
	}
}

// connections are the server's own.
func (c collector) connections(s series) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, l := range c.server.listeners {
		s.now("http_connections", "Open connections.", float64(l.open.Load()), "listener", l.from.String())
	}
	own := &c.server.metrics.connections
	s.total("http_connections_refused", "Connections for which there was no room.", own.refused.Load())
	s.total("http_connections_foreign", "Connections of other users.", own.foreign.Load())
}

func kindLabels(k service.SessionKind) []string {
	return []string{
		"backend", string(k.Backend), "degraded", strconv.FormatBool(k.Degraded), "weakened", strconv.FormatBool(k.Weakened),
	}
}
