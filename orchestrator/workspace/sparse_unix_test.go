//go:build unix

package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"brig/orchestrator/workspace"
)

// What is copied out is the same, byte by byte, and takes no more room.
func TestCopyOutSparse(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	hole := func(n int) []byte { return make([]byte, n) }
	text := bytes.Repeat([]byte("x"), 70_000)
	for name, content := range map[string][]byte{
		"empty": nil, "short": []byte("abc"), "zeros": hole(200_001), "block": hole(64 << 10),
		"ends in a hole": append(bytes.Clone(text), hole(300_000)...), "begins with one": append(hole(300_000), text...),
		"both": append(append(bytes.Clone(text), hole(300_000)...), text...),
	} {
		must(t, os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
		dest := filepath.Join(t.TempDir(), "out")
		must(t, s.CopyOut(name, dest))
		got, err := os.ReadFile(dest)
		must(t, err)
		if !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes came out, of %d, or other ones", name, len(got), len(content))
		}
	}
	must(t, os.WriteFile(filepath.Join(s.dir, "huge"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(s.dir, "huge"), 512<<20))
	dest := filepath.Join(t.TempDir(), "out")
	must(t, s.CopyOut("huge", dest))
	var st syscall.Stat_t
	must(t, syscall.Stat(dest, &st))
	if st.Size != 512<<20 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes came out and take %d", st.Size, st.Blocks*512)
	}
}
