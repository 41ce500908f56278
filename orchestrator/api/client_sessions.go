package api

import (
	"context"
	"net/http"
	"net/url"
)

func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.do(ctx, call{method: http.MethodGet, path: path("status"), out: &s})
}

func (c *Client) Backends(ctx context.Context) (b BackendList, err error) {
	return b, c.do(ctx, call{method: http.MethodGet, path: path("backends"), out: &b})
}

func (c *Client) OpenSession(ctx context.Context, r SessionRequest) (s Session, created bool, err error) {
	answer, err := c.send(ctx, call{method: http.MethodPost, path: path("sessions"), in: r})
	if err != nil {
		return s, false, err
	}
	defer answer.Body.Close()
	return s, answer.StatusCode == http.StatusCreated, c.decode(ctx, answer, &s)
}

func (c *Client) Sessions(ctx context.Context, p Page) (l SessionList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("sessions"), query: page(p), out: &l})
}

func (c *Client) Session(ctx context.Context, session string) (s Session, err error) {
	return s, c.do(ctx, call{method: http.MethodGet, path: path("sessions", session), out: &s})
}

func (c *Client) RenewSession(ctx context.Context, session string, r Renewal) (s Session, err error) {
	return s, c.do(ctx, call{method: http.MethodPost, path: path("sessions", session, "renew"), in: r, out: &s})
}

func (c *Client) CloseSession(ctx context.Context, session string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("sessions", session)})
}

func (c *Client) Reset(ctx context.Context, session string, o ResetOptions) (s Session, err error) {
	q := url.Values{}
	if o.Now {
		q.Set("now", "true")
	}
	return s, c.do(ctx, call{method: http.MethodPost, path: path("sessions", session, "reset"), query: q, out: &s})
}

func (c *Client) Interrupt(ctx context.Context, session string) error {
	return c.do(ctx, call{method: http.MethodPost, path: path("sessions", session, "interrupt")})
}

func (c *Client) Variables(ctx context.Context, session string) (l VariableList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("sessions", session, "variables"), out: &l})
}

func (c *Client) SessionToken(ctx context.Context, session string) (t Token, err error) {
	return t, c.do(ctx, call{method: http.MethodPost, path: path("sessions", session, "token"), out: &t})
}
