//go:build !windows

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

func dialPipe(context.Context, string) (net.Conn, error) {
	return nil, fmt.Errorf("open a named pipe: %w", errors.ErrUnsupported)
}
