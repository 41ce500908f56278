package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/client"
)

// target is one place where an engine may answer, and why it is looked at.
type target struct {
	endpoint string // as a person would write it: unix:///var/run/docker.sock
	source   string // "DOCKER_HOST", "context colima", "found at its usual place"
	undo     string // the command that makes the user's own choice go away, empty when there was none
	tls      *tls.Config
}

type transport string

const (
	transportUnix transport = "unix"
	transportPipe transport = "npipe"
	transportTCP  transport = "tcp"
	transportTLS  transport = "tls"
	transportSSH  transport = "ssh"
)

// local says that the engine sees the same file system, so that a directory can be
// bound. A tunnel on loopback leads elsewhere, so an address never counts as local.
func (t transport) local() bool { return t == transportUnix || t == transportPipe }

var errScheme = errors.New("the scheme is none of unix, npipe, tcp, http, https and ssh")

// dialer opens one connection to the engine, TLS included. Both ordinary requests
// and hijacked streams go through it: so one guard is enough for all of them.
type dialer func(ctx context.Context) (net.Conn, error)

// dial says how t is reached. host is what the SDK has to be given as its host.
func (t target) dial() (kind transport, host string, d dialer, err error) {
	u, err := url.Parse(t.endpoint)
	if err != nil {
		return "", "", nil, fmt.Errorf("parse the endpoint: %w", err)
	}
	switch u.Scheme {
	case "unix":
		return transportUnix, t.endpoint, netDialer("unix", u.Path), nil
	case "npipe":
		return transportPipe, t.endpoint, func(ctx context.Context) (net.Conn, error) { return dialPipe(ctx, u.Path) }, nil
	case "tcp", "http", "https":
		config := t.tls
		if config == nil && u.Scheme == "https" {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		u.Scheme = "tcp"
		if config == nil {
			return transportTCP, u.String(), netDialer("tcp", u.Host), nil
		}
		config = config.Clone()
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		return transportTLS, u.String(), tlsDialer(u.Host, config), nil
	case "ssh":
		if _, err := exec.LookPath("ssh"); err != nil {
			return transportSSH, "", nil, fmt.Errorf("find the ssh command: %w", err)
		}
		helper, err := connhelper.GetConnectionHelper(t.endpoint)
		if err != nil {
			return transportSSH, "", nil, fmt.Errorf("parse the ssh endpoint: %w", err)
		}
		return transportSSH, helper.Host, func(ctx context.Context) (net.Conn, error) {
			conn, err := helper.Dialer(ctx, "", "")
			if err != nil {
				return nil, err
			}
			return &sshConn{Conn: conn}, nil
		}, nil
	default:
		return "", "", nil, errScheme
	}
}

func netDialer(network, address string) dialer {
	d := net.Dialer{KeepAlive: 30 * time.Second}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, network, address) }
}

func tlsDialer(address string, config *tls.Config) dialer {
	d := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: 30 * time.Second}, Config: config}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}

// newClient makes an SDK client that uses d for everything and negotiates its API
// version. The transport has no TLS settings of its own (d brings the connection
// encrypted), because with them the SDK would open hijacked streams by itself.
func newClient(host string, d dialer) (*client.Client, *http.Transport, error) {
	t := &http.Transport{MaxIdleConnsPerHost: 6, IdleConnTimeout: 30 * time.Second}
	guarded := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialHeld(ctx, d) }
	c, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: t, CheckRedirect: client.CheckRedirect}),
		client.WithHost(host),
		client.WithDialContext(guarded),
		client.WithScheme("http"),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("make the engine client: %w", err)
	}
	t.Proxy = nil // a hijacked stream does not pass through one, so nothing does
	return c, t, nil
}
