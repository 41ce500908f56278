//go:build !linux

package enginetest

import (
	"errors"
	"fmt"
	"io"
)

// process would be a container's; only Linux has what it takes.
type process struct {
	pid            int
	stdin          io.WriteCloser
	stdout, stderr io.Reader
}

func startProcess(string, *container) (*process, error) {
	return nil, fmt.Errorf("start a container: %w", errors.ErrUnsupported)
}

func (p *process) wait() int     { return 0 }
func (p *process) signal(string) {}
func (p *process) freeze(bool)   {}
