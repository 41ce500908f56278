package api

import (
	"context"
	"net/http"
	"time"
)

func (c *Client) Selftest(ctx context.Context, r SelftestRequest) (s Selftest, err error) {
	return s, c.do(ctx, call{method: http.MethodPost, path: path("selftest"), in: r, out: &s})
}

func (c *Client) FindSelftest(ctx context.Context, id string, o FindOptions) (s Selftest, err error) {
	at := path("selftest")
	if id != "" {
		at = path("selftest", id)
	}
	return s, c.do(ctx, call{method: http.MethodGet, path: at, header: waits(o.Wait), out: &s})
}

func (c *Client) Selftests(ctx context.Context, p Page) (l SelftestList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("selftests"), query: page(p), out: &l})
}

func (c *Client) FollowSelftest(ctx context.Context, id string, after uint64, emit func(Event) error) error {
	return c.follow(ctx, path("selftest", id, "events"), after, EventVerdict, emit)
}

func (c *Client) Audit(ctx context.Context, q AuditQuery) (l AuditList, err error) {
	values := page(q.Page)
	for name, value := range map[string]string{"kind": q.Kind, "session": q.Session, "run": q.Run} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return l, c.do(ctx, call{method: http.MethodGet, path: path("audit"), query: values, out: &l})
}

func (c *Client) Settings(ctx context.Context) (l SettingList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("settings"), out: &l})
}

func (c *Client) PageLogin(ctx context.Context) (l PageLogin, err error) {
	return l, c.do(ctx, call{method: http.MethodPost, path: path("login"), out: &l})
}

func (c *Client) Shutdown(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: path("shutdown")})
}
