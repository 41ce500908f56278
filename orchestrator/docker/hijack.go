package docker

import (
	"context"
	"net"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// connHolder lets the caller of a hijacking request close the connection that the
// dialer opened for it. The SDK ignores the context once that socket is dialled, so
// an engine that accepts and never answers would hold the caller for ever.
type connHolder struct {
	ctx    context.Context // bounds the dialling
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

type connHolderKey struct{}

// dialHeld dials for a request; if it is a guarded one, its holder gets the connection.
func dialHeld(ctx context.Context, d dialer) (net.Conn, error) {
	h, ok := ctx.Value(connHolderKey{}).(*connHolder)
	if !ok {
		return d(ctx)
	}
	conn, err := d(h.ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn = conn; h.closed {
		_ = conn.Close()
	}
	return conn, nil
}

func (h *connHolder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed = true; h.conn != nil {
		_ = h.conn.Close()
	}
}

// attach opens the stream of a container. ctx bounds the handshake only: the
// stream lives until it is closed.
func attach(ctx context.Context, cli *client.Client, id string) (types.HijackedResponse, error) {
	holder := &connHolder{ctx: ctx}
	stop := context.AfterFunc(ctx, holder.close)
	handshake := context.WithValue(context.WithoutCancel(ctx), connHolderKey{}, holder)
	stream, err := cli.ContainerAttach(handshake, id, container.AttachOptions{
		Stream: true, Stdin: true, Stdout: true, Stderr: true,
	})
	if !stop() && err == nil { // too late: the connection is being closed
		stream.Close()
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return stream, err
}
