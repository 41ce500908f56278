package api

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Client is a Brig that is reached over a unix socket or loopback. It repeats
// nothing that could run code twice: a request is sent once, and where its answer
// breaks off the error is CodeInterruptedIO. Only event streams are taken up again,
// where they broke. Methods may be called side by side.
type Client struct {
	end  Endpoint
	base string
	http *http.Client
}

var _ Brig = (*Client)(nil)

// NewClient makes a client. It connects when it is first asked something.
func NewClient(e Endpoint) *Client {
	c := &Client{end: e, base: "http://" + e.Address}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	dial := dialer.DialContext
	if e.Socket != "" {
		c.base = "http://localhost"
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", e.Socket)
		}
	}
	transport := &http.Transport{
		// Neither a proxy nor compression has any business on the way to the same machine.
		DialContext: hearing(dial), DisableCompression: true,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		ExpectContinueTimeout: 2 * time.Second, MaxResponseHeaderBytes: 1 << 20,
	}
	c.http = &http.Client{
		Transport: transport,
		// The token goes to the brig that it is from, and nowhere that somebody points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close gives idle connections up. Calls that are under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }
