package docker

import (
	"context"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"
)

// dialPipe opens a named pipe given as in npipe:////./pipe/docker_engine.
func dialPipe(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, strings.ReplaceAll(path, "/", `\`))
}
