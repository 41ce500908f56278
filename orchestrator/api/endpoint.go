package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files below a brig's runtime directory, which its user alone can open.
const (
	OperatorSocket = "operator.sock"
	AgentSocket    = "agent.sock"
	OperatorToken  = "operator.token"
	AgentToken     = "agent.token"
	MCPToken       = "mcp.token" // good for /mcp alone
	EndpointFile   = "endpoint.json"
)

// VersionHeader is on every answer of a brig: which one it is. It tells a brig from
// whatever else may listen on a port.
const VersionHeader = "Brig-Version"

// ViaHeader says through what an agent asks. ViaMCP is a server of the Model Context
// Protocol, whose agents run code only where permissions.profile lets them.
const (
	ViaHeader = "Brig-Via"
	ViaMCP    = "mcp"
)

// Bound is the content of EndpointFile: what a running brig listens on.
type Bound struct {
	Address string `json:"address,omitempty"` // host and port on loopback; empty: sockets only
	Version string `json:"version"`
	PID     int    `json:"pid"` // for people: whether that brig lives is for its lock to say
}

// Endpoint is a way to a brig: a unix socket, or an address on loopback and a token.
type Endpoint struct {
	Socket  string
	Address string
	Token   string // also through a socket where the credential is one session's
	Via     string // ViaMCP, or empty
}

// Role is which credential of a runtime directory is meant.
type Role string

const (
	Operator Role = "operator"
	Agent    Role = "agent"
)

// ErrNotRunning says that there is no way to a brig in a runtime directory.
var ErrNotRunning = errors.New("no brig is running")

// maxSmall bounds a file of a runtime directory, in bytes.
const maxSmall = 4 << 10

// Find tells how to reach the brig whose runtime directory that is: its socket, and
// where there is none the address and token that it wrote. It never guesses a port,
// where another user's program could sit. ErrNotRunning, also where nobody listens on
// the socket; any other error means that something is there and cannot be asked. What
// is found through an address may be the trace of a brig that was killed: the caller
// makes sure by the lock, before it sends the token.
func Find(ctx context.Context, runtime string, role Role) (Endpoint, error) {
	e := Endpoint{Socket: filepath.Join(runtime, string(role)+".sock")}
	if _, err := os.Lstat(e.Socket); errors.Is(err, fs.ErrNotExist) {
		return findAddress(runtime, role)
	}
	if err := listens(ctx, e.Socket); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// listens tries whether somebody does.
func listens(ctx context.Context, socket string) error {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", socket)
		switch {
		case err == nil:
			return c.Close()
		case nobody(err):
			return ErrNotRunning
		case !full(err):
			return fmt.Errorf("connect to brig: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connect to brig: too many wait for it: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func findAddress(runtime string, role Role) (Endpoint, error) {
	b, err := ReadBound(runtime)
	if errors.Is(err, fs.ErrNotExist) {
		return Endpoint{}, ErrNotRunning
	}
	if err != nil {
		return Endpoint{}, err
	}
	if b.Address == "" {
		return Endpoint{}, ErrNotRunning
	}
	host, _, err := net.SplitHostPort(b.Address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return Endpoint{}, fmt.Errorf("read where brig listens: %s names no address on loopback", EndpointFile)
	}
	token, err := readSmall(filepath.Join(runtime, string(role)+".token"))
	if errors.Is(err, fs.ErrNotExist) {
		return Endpoint{}, ErrNotRunning
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read brig's token: %w", err)
	}
	return Endpoint{Address: b.Address, Token: strings.TrimSpace(string(token))}, nil
}

// readSmall reads a file of a runtime directory. Something else of its name, such as
// a pipe, is not waited for.
func readSmall(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, fmt.Errorf("%s is no file that brig writes", name)
	}
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// ReadBound reads what the brig with that runtime directory listens on. It may be the
// trace of one that was killed.
func ReadBound(runtime string) (b Bound, err error) {
	text, err := readSmall(filepath.Join(runtime, EndpointFile))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return Bound{}, fmt.Errorf("read where brig listens: %w", err)
	}
	return b, nil
}
