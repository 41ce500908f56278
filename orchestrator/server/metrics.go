package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what the server itself counts, and what the service does. No label
// has anything in it that a client chose.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	strangers   prometheus.Counter
	elsewhere   prometheus.Counter
	connections connections
	server      *Server
}

type connections struct{ refused, foreign atomic.Uint64 }

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), server: s,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "brig_http_requests_total", Help: "Requests that were answered.",
		}, []string{"route", "status", "listener"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "brig_http_request_seconds", Help: "Seconds from the header of a request to the end of its answer.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300},
		}, []string{"route"}),
		strangers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "brig_http_unauthorized_total", Help: "Requests with a wrong credential or none.",
		}),
	}
	m.elsewhere = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "brig_http_misdirected_total", Help: "Requests for another host or of another site's page.",
	})
	m.registry.MustRegister(m.requests, m.seconds, m.strangers, m.elsewhere, collector{s, s.options.Service.Counts},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(q *request, w *writer, _ *http.Request) {
	route := q.route
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(w.status), q.conn.from.String()).Inc()
	m.seconds.WithLabelValues(route).Observe(time.Since(q.begun).Seconds())
}

// handler is for the operator: the numbers tell about everybody.
func (m *metrics) handler() http.Handler {
	return m.server.forOperator(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}
