package workspace_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"brig/orchestrator/workspace"
)

// Puts of a batch keep the limits exactly, whatever else fills or empties the workspace.
func TestBatch(t *testing.T) {
	s := newStage(t, workspace.Limits{Bytes: 1 << 20, Files: 40})
	data := strings.Repeat("x", 100_000)
	done := s.Batch()
	n := 0
	for ; n < 20; n++ {
		if _, err := s.Put(fmt.Sprint(n), strings.NewReader(data), 0); err != nil {
			wantKind(t, err, workspace.ErrQuota)
			break
		}
	}
	used, _, err := s.Usage()
	if err != nil || n != 10 || used > 1<<20 {
		t.Fatalf("%d files fitted, %d bytes, %v", n, used, err)
	}
	// Room that comes free is found, and what code filled in is not overlooked for ever.
	must(t, os.Remove(s.path("0")))
	if _, err := s.Put("again", strings.NewReader(data), 0); err != nil {
		t.Errorf("with room: %v", err)
	}
	_, err = s.Put("more", strings.NewReader(data), 0)
	wantKind(t, err, workspace.ErrQuota)
	done()
	done()
	for i := range 9 {
		must(t, os.Remove(s.path(fmt.Sprint(i+1))))
	}
	s.write(t, "by-code", strings.Repeat("x", 900_000))
	_, err = s.Put("after", strings.NewReader(data), 0)
	wantKind(t, err, workspace.ErrQuota)

	// The number of files is kept as well.
	must(t, s.Clear())
	done = s.Batch()
	defer done()
	n = 0
	for ; n < 60; n++ {
		if _, err := s.Put(fmt.Sprint(n), strings.NewReader(""), 0); err != nil {
			wantKind(t, err, workspace.ErrQuota)
			break
		}
	}
	if n != 40 {
		t.Errorf("%d files fitted", n)
	}
}
