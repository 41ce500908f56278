//go:build unix

package api_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/api"
)

// What is no file that a brig writes is neither waited for nor read without end.
func TestOddEndpointFile(t *testing.T) {
	for what, put := range map[string]func(name string) error{
		"pipe":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"endless":   func(name string) error { return os.Symlink("/dev/zero", name) },
		"large":     func(name string) error { return os.WriteFile(name, []byte(strings.Repeat(" ", 1<<20)), 0o600) },
	} {
		for _, file := range []string{api.EndpointFile, api.OperatorToken} {
			dir := t.TempDir()
			if file != api.EndpointFile {
				write(t, dir, api.EndpointFile, `{"address":"127.0.0.1:7411","version":"v1","pid":1}`)
			}
			if err := put(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			_, err := api.Find(t.Context(), dir, api.Operator)
			if err == nil || errors.Is(err, api.ErrNotRunning) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s as %s: %v", what, file, err)
			}
		}
	}
}
