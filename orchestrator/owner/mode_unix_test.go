//go:build unix

package owner

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyTheUserMayRead(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	o := open(t, state)
	for path, want := range map[string]os.FileMode{
		state:                          0o700 | os.ModeDir,
		filepath.Join(state, locksDir): 0o700 | os.ModeDir,
		filepath.Join(state, idFile):   0o600,
		filepath.Join(state, locksDir, o.Token()+lockEnd): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}
