package private

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is another handle of the file, as another process has it.
func opened(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := Open(name, os.O_CREATE|os.O_RDWR)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestLocksExclude(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, second := opened(t, name), opened(t, name)
	must(t, Lock(first))
	if held, err := TryLock(second); held || err != nil {
		t.Fatalf("two hold it: %v", err)
	}
	if free, err := Free(second); free || err != nil {
		t.Fatalf("a held lock counts as free: %v", err)
	}
	must(t, Unlock(first))
	if free, err := Free(second); !free || err != nil {
		t.Fatalf("nobody has it, and it is not free: %v", err)
	}
	// Whoever asked as well is no holder, and goes away with the handle.
	if free, err := Free(first); !free || err != nil {
		t.Fatalf("one who asks is taken for the holder: %v", err)
	}
	must(t, second.Close())
	must(t, Unlock(first))
	if held, err := TryLock(opened(t, name)); !held || err != nil {
		t.Fatalf("it is not free after all: %v", err)
	}
}

func TestAwait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, second := opened(t, name), opened(t, name)
	must(t, Lock(first))
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := Await(ctx, second, time.Millisecond); !errors.Is(err, enough) {
		t.Fatalf("the end of the wait says %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- Await(t.Context(), second, time.Millisecond) }()
	must(t, first.Close())
	must(t, <-got)
	if held, err := TryLock(opened(t, name)); held || err != nil {
		t.Errorf("what was waited for is not held: %v", err)
	}
	must(t, second.Close())
	if err := Await(t.Context(), second, time.Millisecond); err == nil {
		t.Error("a closed file was locked")
	}
}
