package api

import (
	"context"
	"errors"
	"net"
	"time"
)

// answerGrace is how long a request that could not be written to its end leaves the
// answer to it time to be read.
const answerGrace = 500 * time.Millisecond

// conn is a connection on which a refusal is heard. A brig that refuses an upload
// answers and closes while this side still writes; what was answered is there to be
// read, but net/http gives a connection up at the first write that fails.
type conn struct{ net.Conn }

func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		time.Sleep(answerGrace)
	}
	return n, err
}

func hearing(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn{c}, nil
	}
}
